"""Clients of a running service.

Other packages import `rest`, `websocket` and `errors`.
"""
