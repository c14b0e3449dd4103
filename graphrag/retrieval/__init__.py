"""Finds what a question needs in a graph and writes it for a model.

From outside: `retriever`, `context`, `prepared_prompt`.
"""
