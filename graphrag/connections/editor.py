"""The interface of workflow servers: what a connection asks of n8n, Node-RED or another one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from graphrag.importers.json_values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What a server and a key allow. `rights` are in the server's own words.

    `missing` are the rights without which workflows cannot be read in full, `missing_to_write`
    those without which they cannot be written, as far as the server tells.
    """

    version: str
    rights: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    missing_to_write: tuple[str, ...] = ()

    def missing_for(self, *, writes: bool) -> tuple[str, ...]:
        """Returns the missing rights of a connection that writes, or only reads."""
        return (*self.missing, *self.missing_to_write) if writes else self.missing


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
    whole: Any = field(default=None, repr=False)
    """The server's whole document where `document` is a part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRemark:
    """Something to tell a person before a write: the code of a sentence and its facts."""

    code: str
    facts: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What would become of a document that is written.

    With a problem it must not be written. `effects` are what starts, stops, goes live or is lost;
    `warnings` are what cannot be checked.
    """

    problems: tuple[PushRemark, ...] = ()
    warnings: tuple[PushRemark, ...] = ()
    effects: tuple[PushRemark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAnswer:
    """The server's answer to a write. It says little: a refused document may have been stored.

    `is_conflict`: the server has another version than the one that was read. `is_page`: a proxy
    answered with a page for browsers. `reason` is the server's own, without secrets and short.
    """

    is_accepted: bool
    status: int
    is_conflict: bool = False
    is_page: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpublished:
    """A draft that differs from what runs. `live` is the document that runs, None where nothing
    does; `versions` are those that were saved since, newest first.
    """

    live: Any = field(repr=False)
    versions: tuple[str, ...]


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

    async def preflight(self, read: RemoteDocument, target: Any) -> Preflight:
        """Returns what would become of `target`, the document of `read` with changes."""
        ...

    async def write(self, read: RemoteDocument, target: Any) -> WriteAnswer:
        """Stores `target` in place of the document that was read; nothing is published by it.

        Raises: EditorUnreachable where no answer came: the write may have been carried out.
        """
        ...

    async def unseen_version(self, read: RemoteDocument, target: Any) -> Any | None:
        """Returns the document that somebody stored between `read` and the write of `target`, and
        that this write replaced; None where there was none.
        """
        ...

    async def unpublished(self, read: RemoteDocument) -> Unpublished | None:
        """Returns what a publication of the draft that was read would replace; None where the
        draft is what runs.

        Raises: EditorFault where the kind of server knows no drafts.
        """
        ...

    async def publish(self, read: RemoteDocument) -> WriteAnswer:
        """Makes the draft that was read the version that runs.

        Raises: EditorFault where the kind of server knows no drafts.
        """
        ...

    async def aclose(self) -> None:
        """Closes the connections."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerNotice:
    """Something that a server tells by itself: that it may have changed, or that a node failed.

    `node_id`: the failed node, "" for a change. `message`: what the node said, without secrets and
    short.
    """

    node_id: str = ""
    message: str = ""


@runtime_checkable
class GivesNotices(Protocol):
    """An editor whose server tells of changes and failures by itself."""

    def notices(self) -> AsyncGenerator[ServerNotice]:
        """Yields a change when it listens, and then whenever the server tells something.

        Raises: EditorFault, also where the connection ends.
        """
        ...


@runtime_checkable
class KeepsFailures(Protocol):
    """An editor whose server keeps the runs of workflows."""

    async def failures(
        self, workflow_id: str, tokens: Mapping[str, str], *, since: int, until: int
    ) -> list[ServerNotice]:
        """Returns which runs of a workflow failed that were started in this time, oldest first.

        `tokens`: those of the version that ran. Units: milliseconds since 1970.
        Raises: EditorFault.
        """
        ...


@runtime_checkable
class CreatesWorkflows(Protocol):
    """An editor whose server takes new workflows."""

    async def documents(self) -> list[Json]:
        """Returns all workflows with their nodes, as the server lists them."""
        ...

    async def create(self, document: Json) -> WriteAnswer:
        """Stores a new workflow, which does not run.

        Raises: EditorUnreachable where no answer came: it may have been created.
        """
        ...

    async def preflight(self, read: RemoteDocument, target: Any) -> Preflight: ...

    async def read(self, workflow_id: str) -> RemoteDocument | None: ...
