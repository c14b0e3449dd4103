"""HTTP tools described by agent documents: parses their templates, checks them, and sends their
requests within limits.

Public: `model`, `compiled`, `executor`, `tool_run`, `stored_values`, `tool`.
"""
