"""Connects a workspace with running n8n and Node-RED servers, whose workflows become graphs.

A server is reached by an `Editor`: one file and one entry in `editors.EDITORS` for each kind. It is
written to by `pushes` alone, once a person has decided a push.

Other packages import the names of `__all__` and the modules `errors`, `stored_connection`, `pull`
(what became of a workflow), `pushes` and `stored_push`.
"""

from __future__ import annotations

from graphrag.connections.editor import Discovery, Editor
from graphrag.connections.following import Following
from graphrag.connections.new_connection import NewConnection
from graphrag.connections.running_syncs import RunningSyncs
from graphrag.connections.server_connections import (
    ComparedWorkflow,
    Connections,
    LinkedGraph,
    PullReport,
)
from graphrag.connections.standing import Standing
from graphrag.connections.stored_connection import ConnectionLink, ServerConnection

__all__ = [
    "ComparedWorkflow",
    "ConnectionLink",
    "Connections",
    "Discovery",
    "Editor",
    "Following",
    "LinkedGraph",
    "NewConnection",
    "PullReport",
    "RunningSyncs",
    "ServerConnection",
    "Standing",
]
