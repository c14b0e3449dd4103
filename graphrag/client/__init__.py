"""Clients of a running service.

From outside: `rest`, `stream`, `errors`.
"""
