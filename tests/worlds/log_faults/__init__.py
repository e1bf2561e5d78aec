"""Faults under writers that share a log in PostgreSQL, and a checker of the result.

``schedule`` draws faults from a seed and injects them into real servers (``cluster``), real
processes (``writer``, ``reader``) and the network between them (``proxy``). Every process records
the answers it gets; ``checker`` compares them with the final log, without knowing how it was made.
"""
