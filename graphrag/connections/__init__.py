"""Connects a workspace with running n8n and Node-RED servers, whose workflows become graphs.

A server is reached by an `Editor`: one file and one entry in `editors.EDITORS` for each kind. All
requests of this package read; nothing is written to a server.

From outside: the names of `__all__`, and `errors`.
"""

from __future__ import annotations

from graphrag.connections.connection import Connection, ConnectionLink
from graphrag.connections.editor import Discovery, Editor
from graphrag.connections.service import Connections, NewConnection, SyncReport

__all__ = [
    "Connection",
    "ConnectionLink",
    "Connections",
    "Discovery",
    "Editor",
    "NewConnection",
    "SyncReport",
]
