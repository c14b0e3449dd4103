"""How good retrieval is: scored on workflows with annotated questions, and on knowledge graphs.

From outside: `workflows` and `knowledge` (scores), `formats` (files of knowledge graphs).
"""
