"""Tools that a document describes: HTTP requests made from templates, checked, bounded and run.

From outside: `model`, `compiled`, `executor`, `tool`.
"""
