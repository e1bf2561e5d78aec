"""Embeddings: texts of facts as unit vectors, from a model of the operator's choice.

Vectors are never events: they are a function of the log and of the model pinned in it.
``provider`` is the seam to models, ``cache`` keeps what they answered by content,
``vec_facts`` is the asynchronous projection of the live ones and ``worker`` its writer.
"""
