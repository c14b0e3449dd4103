"""Pushes as they are stored: what is to be written to a server, who decided it, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import orjson
from pydantic import Field

from datasources.base import Record
from datasources.types import Document, Key, parse_document
from graphrag.connections.document_patch import (
    MISSING,
    EntryId,
    PatchedField,
    Path,
    shown_path,
    value_at,
    value_digest,
)
from graphrag.connections.editor import PushRemark
from tools.base import Role

PUSH_KIND = "connection_push"
MAX_SHOWN_CHARS = 2_000
MAX_SHOWN = 500
"""Changed fields that a push shows; all are written."""

PushAction = Literal["push", "publish", "undo", "create"]
PushState = Literal[
    "refused",
    "waiting",
    "rejected",
    "planned",
    "sent",
    "verified",
    "failed",
    "rolled_back",
    "undone",
    "unknown",
]
"""How far a push is.

`refused`: it has problems and cannot be decided. `waiting`: for a decision. `planned`: it was
decided, and nothing was sent. `sent`: a write may have been carried out. `verified`: it was read
back. `failed`: the server has not got it. `rolled_back`: the server refused it after storing it,
and has the document of before again. `undone`: it was there, and somebody put the fields of before
back on the server. `unknown`: what the server has could not be read, or somebody
wrote the same fields since.
"""


class StoredRemark(Document):
    """The code of a sentence and its facts."""

    code: str
    facts: dict[str, str] = Field(default_factory=dict[str, str])


class StoredChange(Document):
    """One field that a push changes: its place, and its values without secrets, cut short.

    A part of `path` is `.FIELD`, or `#ID` for the entry of a list. The digests are those of the
    whole values, "" where there is no value.
    """

    path: tuple[str, ...]
    place: str
    before: Any = None
    after: Any = None
    before_digest: str
    after_digest: str


class Push(Document):
    """A write to a workflow server, from the plan to its end."""

    key: Key
    workspace: str
    connection: str
    workflow_id: str
    name: str
    graph_key: str
    action: PushAction = "push"
    state: PushState
    changes: tuple[StoredChange, ...] = ()
    more_changes: int = 0
    changes_digest: str
    """The hash of all changes, shown or not: what is sent is what was decided."""
    problems: tuple[StoredRemark, ...] = ()
    warnings: tuple[StoredRemark, ...] = ()
    effects: tuple[StoredRemark, ...] = ()
    left_out: tuple[str, ...] = ()
    """Changes of the graph that the server's format cannot express, one English sentence each."""
    asked_by: str
    asked_role: Role
    created_time: int
    decided_by: str | None = None
    decided_role: Role | None = None
    decided_time: int | None = None
    sent_time: int | None = None
    ended_time: int | None = None
    reason: StoredRemark | None = None
    """Why it ended without the write that was asked for, or what else is to be known."""
    failures: tuple[StoredRemark, ...] = ()
    """Nodes that failed on the server in the minutes after the push."""
    sent_nodes: tuple[str, ...] = ()
    """The ids of the first nodes that a creation sent: by them its workflow is found."""
    has_failures_read: bool = False
    """Whether these minutes are over, and the failed runs that the server keeps were read."""
    tokens_before: dict[str, str] = Field(default_factory=dict[str, str])
    tokens_after: dict[str, str] = Field(default_factory=dict[str, str])
    sealed_documents: str | None = None
    """The documents before and after, encrypted: what takes the push back."""
    undoes: str | None = None
    """The push that this one takes back."""
    schema_version: int = 1

    @property
    def can_be_undone(self) -> bool:
        return self.state == "verified" and self.sealed_documents is not None

    @property
    def is_unsettled(self) -> bool:
        """True where its sender stopped, or where the server could not be read afterwards."""
        is_unread = self.reason is not None and self.reason.code == "push_unread"
        return self.state in ("planned", "sent") or (self.state == "unknown" and is_unread)


def stored_change(change: PatchedField, names: Mapping[str, str]) -> StoredChange:
    """Returns a change as it is stored; `names` are those of entries of lists, by id."""
    return StoredChange(
        path=tuple(f"#{p.id}" if isinstance(p, EntryId) else f".{p}" for p in change.path),
        place=shown_path(change.path, names),
        before=_short(change.before),
        after=_short(change.after),
        before_digest=value_digest(change.before),
        after_digest=value_digest(change.after),
    )


def path_of(change: StoredChange) -> Path:
    """Returns the path of a stored change as `document_patch` reads it."""
    return tuple(EntryId(part[1:]) if part[0] == "#" else part[1:] for part in change.path)


def is_undone(push: Push, document: Any) -> bool:
    """Returns whether all fields of a push have the values of before in the server's document,
    which is without secrets.
    """
    return bool(push.changes) and all(
        change.before_digest != change.after_digest
        and value_digest(value_at(document, path_of(change))) == change.before_digest
        for change in push.changes
    )


def remarks(of: tuple[PushRemark, ...]) -> tuple[StoredRemark, ...]:
    return tuple(StoredRemark(code=each.code, facts=dict(each.facts)) for each in of)


def read_push(record: Record) -> Push:
    """Raises: BadDocument."""
    return parse_document(Push, dict(record.data), PUSH_KIND)


def _short(value: Any) -> Any:
    """Returns a value as a person is shown it, None where there is none."""
    if isinstance(value, str):
        return value if len(value) <= MAX_SHOWN_CHARS else f"{value[:MAX_SHOWN_CHARS]}…"
    if isinstance(value, bool | int | float) or value is None:
        return value
    if value is MISSING:
        return None
    text = orjson.dumps(value).decode()
    return value if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
