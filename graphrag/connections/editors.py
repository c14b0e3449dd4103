"""The kinds of workflow servers: how an editor of each is made."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from urllib.parse import quote

from graphrag.connections.editor import Editor
from graphrag.connections.errors import ConnectionRefused, EditorFault
from graphrag.connections.n8n_server import N8nEditor
from graphrag.connections.node_red_server import NodeRedEditor
from graphrag.connections.server_http import ServerHttp, server_rules
from graphrag.connections.stored_connection import ConnectionLink, EditorKind, ServerConnection

OpenEditor = Callable[[ServerConnection, str], Editor]
"""Makes the editor of a connection with a key, which is empty for a server that needs none."""


def open_editor(connection: ServerConnection, key: str) -> Editor:
    """Returns an editor; nothing is sent yet.

    Raises: ConnectionRefused for a bad certificate file; EditorFault where the kind of server
    needs a key and there is none.
    """
    return EDITORS[connection.kind](connection, key)


def page_of(connection: ServerConnection, link: ConnectionLink) -> str:
    """Returns the address at which people open a workflow in its own editor."""
    if connection.kind == "n8n":
        return f"{connection.address}/workflow/{quote(link.workflow_id, safe='')}"
    return f"{connection.address}/"


def _http(connection: ServerConnection, headers: Mapping[str, str]) -> ServerHttp:
    rules = server_rules(connection.address, allow_private=connection.allow_private)
    return ServerHttp(
        connection.address, rules, headers=headers, ssl_context=_certificates(connection)
    )


def _certificates(connection: ServerConnection) -> ssl.SSLContext | None:
    file = connection.certificate_file
    if file is None:
        return None
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as exc:  # also ssl.SSLError
        raise ConnectionRefused("connection_certificate", file=file) from exc


def _n8n(connection: ServerConnection, key: str) -> Editor:
    if not key:
        raise EditorFault("editor_needs_key", address=connection.address)
    return N8nEditor(_http(connection, {"X-N8N-API-KEY": key}))


def _node_red(connection: ServerConnection, key: str) -> Editor:
    return NodeRedEditor(_http(connection, {}), key, name=connection.key, tabs=connection.workflows)


EDITORS: Mapping[EditorKind, OpenEditor] = {"n8n": _n8n, "node-red": _node_red}
