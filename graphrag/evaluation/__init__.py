"""How good retrieval is: scored on workflows with annotated questions, and on knowledge graphs.

From outside: `workflows` and `knowledge` (what is asked), `scoring`, `cells` (what contexts show),
`formats` (files of knowledge graphs).
"""
