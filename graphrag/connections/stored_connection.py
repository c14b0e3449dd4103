"""Stored connections to workflow servers, and the links from their workflows to graphs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from datasources.types import Document, Key
from graphrag.connections.errors import FaultCode
from tools.base import Role

CONNECTION_KIND = "connection"
LINK_KIND = "connection_link"
SCHEMA_VERSION = 1
DEFAULT_INTERVAL_S = 60

EditorKind = Literal["n8n", "node-red"]
PushMode = Literal["never", "ask", "approval"]
"""Whether changes made here may be written to the server: never, when the person who asks for it
confirms them, or when a reviewer approves them.
"""
LinkState = Literal["in_step", "conflict", "refused", "gone", "archived"]
"""How a workflow and its graph stood after the last synchronisation.

`conflict`: a proposal with the server's version of some fields waits. `refused`: the workflow could
not be read. `gone`, `archived`: it is so on the server; its graph stays as it is.
"""


class StoredFault(Document):
    """The code of a fault's sentence, and its facts."""

    code: FaultCode
    facts: dict[str, str] = Field(default_factory=dict[str, str])


class ServerConnection(Document):
    """One server that workflows are read from.

    The key that opens the server is either in the environment variable `key_variable`, or in
    `sealed_key`, encrypted with the service's secret. `workflows` are patterns of names as in a
    shell (`*`, `?`, `[…]`); none means all.
    """

    key: Key
    """The name that people give the connection."""
    workspace: str
    kind: EditorKind
    address: str
    """Scheme, host, port and path under which the server's API is."""
    allow_private: bool = False
    """Whether an administrator said that the address may be one of a private network."""
    key_variable: str | None = None
    sealed_key: str | None = None
    certificate_file: str | None = None
    """A file with the certificates (PEM) that the server's one is checked against."""
    workflows: tuple[str, ...] = ()
    interval_s: int = DEFAULT_INTERVAL_S
    """Time between two looks at the server by itself, in seconds; 0: only when somebody asks. A
    server that gives notice of changes is looked at at once, too."""
    push: PushMode = "never"
    user_id: str
    role: Role
    server_version: str = ""
    rights: tuple[str, ...] = ()
    missing_rights: tuple[str, ...] = ()
    is_key_refused: bool = False
    """Whether the server refused the key. No further sign-in is tried: servers lock out whoever
    tries again and again."""
    created_time: int
    last_synced_time: int | None = None
    unreachable_since_time: int | None = None
    """When the server was first found not to answer; None where it answered the last time."""
    last_error: str | None = None
    """Why the last synchronisation failed as a whole, one sentence in English."""
    last_fault: StoredFault | None = None
    """The same for other languages."""
    schema_version: int = SCHEMA_VERSION


class ConnectionLink(Document):
    """A workflow of a server and the graph that it was read into.

    `tokens` are the server's own marks of a version (a revision, a counter, a time) at the last
    synchronisation, `digest` is the hash of the document that was read then. `graph_revision` is
    the last revision at which the graph was found equal to that document, `compared_revision` the
    last one at which it was found to differ.
    """

    key: Key
    """`CONNECTION/WORKFLOW`, where WORKFLOW is the server's id."""
    connection: str
    workflow_id: str
    name: str
    graph_key: str
    labels: tuple[str, ...] = ()
    tokens: dict[str, str] = Field(default_factory=dict[str, str])
    digest: str = ""
    graph_revision: int = 0
    compared_revision: int = 0
    state: LinkState = "in_step"
    has_unpublished: bool = False
    """Whether what runs on the server differs from the draft that was read."""
    approval: str | None = None
    """The proposal that a conflict became."""
    reason: str | None = None
    last_synced_time: int
    schema_version: int = SCHEMA_VERSION
