"""Embeddings: texts of facts as unit vectors, from a model of the operator's choice.

Vectors are never events: they are a function of the log and of the model pinned in it. ``provider``
is the interface to models, ``cache`` stores their answers by content, ``vec_facts`` is the
asynchronous projection of live vectors, and ``worker`` writes it.
"""
