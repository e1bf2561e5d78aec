"""Memory of conversations: episodes as they happened, and the facts that rules make of them.

Episodes are scoped (user, session, agent), facts (user, agent); deltas are the only way from
one to the other. Source: the Stargraph seed, ``docs/episodes.md``.
"""
