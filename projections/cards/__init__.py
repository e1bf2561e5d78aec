"""Memory cards: a reader's view of one entity in one scope, as a text.

A card is a pure function of facts at a Moment; all else here avoids writing it again (seed §20.4).
"""
