"""The campaign: hundreds of faults and attacks, too slow for the suite.

``make campaign`` runs it for minutes, with ``ARGS`` for hours. Every part draws from a seed that it
prints; ``--only PART --seed N`` replays it. pytest collects no file here.
"""
