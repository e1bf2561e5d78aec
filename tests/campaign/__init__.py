"""The campaign: faults and attacks by the hundred, which take too long for the suite.

``make campaign`` runs it for minutes, with ``ARGS`` for hours. Every part draws from a seed that it
prints; ``--only PART --seed N`` replays it. No file here is collected as a test.
"""
