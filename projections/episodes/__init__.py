"""Memory of conversations: episodes as they happened, and the facts that rules derive from them.

Episodes are scoped (user, session, agent), facts (user, agent); only deltas turn episodes into
facts. Source: the Stargraph seed, ``docs/episodes.md``.
"""
