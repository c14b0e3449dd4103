"""Clients of a running service, and the documents that both sides exchange.

From outside: `rest`, `stream`, `documents`.
"""
