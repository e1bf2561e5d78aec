"""Faults under writers that share a log in PostgreSQL, and a checker of its outcome.

``schedule`` draws faults from a seed and injects them into real servers (``cluster``), real
processes (``writer``, ``reader``) and the network between them (``proxy``). Every process writes
down what it was told; ``checker`` compares that with the log as it is in the end, knowing nothing
of how it was made.
"""
