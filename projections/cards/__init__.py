"""Memory cards: what a reader sees of one entity in one scope, written out as one text.

A card is a pure function of facts at a Moment; everything else here only saves the work of
writing it again (seed §20.4).
"""
