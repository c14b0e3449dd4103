"""Clients of a running service.

From outside: `rest`, `websocket`, `errors`.
"""
