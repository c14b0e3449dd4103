"""The interface of workflow servers: what a connection asks of n8n, Node-RED or another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What a server and a key allow. `rights` are in the server's own words.

    `missing` are the rights without which workflows cannot be read in full.
    """

    version: str
    rights: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWorkflow:
    """A workflow as a server lists it.

    `tokens` are the server's marks of its version: equal tokens mean that nothing needs to be
    read, different ones that something may have changed.
    """

    workflow_id: str
    name: str
    tokens: Mapping[str, str]
    labels: tuple[str, ...] = ()
    is_archived: bool = False
    has_unpublished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteDocument:
    """A workflow as it was read: a file of the server's own format, without names or e-mail
    addresses of the server's users.
    """

    workflow: RemoteWorkflow
    document: Any = field(repr=False)


class Editor(Protocol):
    """A running workflow server, seen with one key. All methods raise EditorFault."""

    async def discover(self) -> Discovery:
        """Returns the server's version and what the key allows."""
        ...

    async def workflows(self) -> list[RemoteWorkflow]:
        """Returns all workflows that the key may read."""
        ...

    async def read(self, workflow_id: str) -> RemoteDocument | None:
        """Returns a workflow as it is now, None where the server has none of this id."""
        ...

    async def aclose(self) -> None:
        """Closes the connections."""
        ...
