"""Works out what a push would write: the fields changed here, on the document as it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from datasources.base import MutableGraphDataSource
from graphrag.connections.document_patch import (
    PatchConflict,
    PatchedField,
    SecretInChange,
    entry_names,
    field_changes,
    patched,
    shown_path,
    value_at,
    value_digest,
)
from graphrag.connections.editor import Preflight, PushRemark, RemoteDocument
from graphrag.connections.server_connections import ServerSession
from graphrag.connections.stored_connection import ConnectionLink, EditorKind, LinkState
from graphrag.connections.stored_push import PushState
from graphrag.importers import UnreadableWorkflow
from graphrag.importers.exchange import read_content
from graphrag.importers.export import (
    NotExportable,
    PatchedFile,
    file_without_secrets,
    patched_file,
)
from graphrag.importers.secrets import without_secrets
from graphrag.workers import run_limited

FORMATS: Mapping[EditorKind, str] = {"n8n": "n8n", "node-red": "node-red"}
"""The format of the files of each kind of server."""
_UNFIT: Mapping[LinkState, str] = {
    "conflict": "push_conflict",
    "refused": "push_refused_link",
    "archived": "push_archived",
    "gone": "push_gone",
}
LOST_KINDS = ("node", "edge")
"""What must not be left out of a push: without it the rest would mean something else."""


def unfit_code(state: LinkState) -> str:
    """Returns the code of the sentence why a workflow in this state cannot be written."""
    return _UNFIT[state]


class PushStopped(Exception):
    """A push ends before it is sent, in a state and with the code of a sentence."""

    def __init__(self, code: str, *, state: PushState = "failed", **facts: str) -> None:
        self.state: PushState = state
        self.remark = PushRemark(code=code, facts=facts)
        super().__init__(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushPlan:
    """What would be written: the document `target`, secrets included.

    `before` and `after` are the documents that were compared: without secrets, but for those that
    somebody typed here. The values of `changes` are without any.
    """

    read: RemoteDocument
    before: Any = field(repr=False)
    after: Any = field(repr=False)
    target: Any = field(repr=False)
    changes: tuple[PatchedField, ...]
    preflight: Preflight = field(default_factory=Preflight)
    left_out: tuple[str, ...] = ()

    @classmethod
    def between(cls, read: RemoteDocument, target: Any, form: str, old: Any = None) -> Self:
        """Returns the plan that puts `target` in place of `old`, by default the document read.

        Raises: UnreadableWorkflow.
        """
        before = read.document if old is None else old
        return cls(
            read=read,
            before=file_without_secrets(form, before),
            after=file_without_secrets(form, target),
            target=target,
            changes=_shown_changes(field_changes(before, target), before, target),
        )

    @property
    def digest(self) -> str:
        """The hash of the changes: a plan of another time with the same one does the same."""
        return changes_digest(self.changes)

    @property
    def names(self) -> dict[str, str]:
        """The names of entries of lists, by id."""
        return entry_names(self.before, self.after)


def _shown_changes(
    changes: Sequence[PatchedField], before: Any, after: Any
) -> tuple[PatchedField, ...]:
    """Returns the changes with their values without secrets."""
    old, new = without_secrets(before), without_secrets(after)
    return tuple(
        PatchedField(
            path=change.path,
            before=value_at(old, change.path),
            after=value_at(new, change.path),
        )
        for change in changes
    )


def changes_digest(changes: tuple[PatchedField, ...]) -> str:
    return value_digest(
        [
            [repr(change.path), value_digest(change.before), value_digest(change.after)]
            for change in changes
        ]
    )


async def plan_push(
    session: ServerSession, source: MutableGraphDataSource, link: ConnectionLink
) -> PushPlan:
    """Reads the workflow, merges what changed there and returns what is to be written.

    Raises: PushStopped, EditorFault.
    """
    read, link = await session.pull.merged(link)
    if read is None:
        raise PushStopped("push_gone")
    if link.state != "in_step":
        raise PushStopped(unfit_code(link.state), approval=link.approval or "")
    content = await read_content(source, link.graph_key)
    if content is None:
        raise PushStopped("push_graph_gone")
    form = FORMATS[session.connection.kind]
    try:
        file = await run_limited(patched_file, form, content, read.document)
    except (NotExportable, UnreadableWorkflow) as exc:
        raise PushStopped("push_not_writable", reason=exc.reason) from exc
    return await _checked(session, read, file)


async def _checked(session: ServerSession, read: RemoteDocument, file: PatchedFile) -> PushPlan:
    """Returns the plan with the problems that stand against it."""
    paths = await run_limited(field_changes, file.before, file.after)
    changes = await run_limited(_shown_changes, paths, file.before, file.after)
    problems = [
        PushRemark(code="push_left_out", facts={"what": notice.line()})
        for notice in file.report.notices
        if notice.what == "dropped" and notice.kind in LOST_KINDS
    ]
    target = read.document
    try:
        target = await run_limited(patched, read.document, file.before, file.after)
    except SecretInChange as exc:
        names = entry_names(file.before, file.after)
        problems += [
            PushRemark(code="push_secret", facts={"place": shown_path(path, names)})
            for path in exc.paths
        ]
    else:
        if changes:
            preflight = await session.editor.preflight(read, target)
            return _plan(read, file, target, changes, preflight, problems)
    return _plan(read, file, target, changes, Preflight(), problems)


def _plan(
    read: RemoteDocument,
    file: PatchedFile,
    target: Any,
    changes: tuple[PatchedField, ...],
    preflight: Preflight,
    problems: list[PushRemark],
) -> PushPlan:
    return PushPlan(
        read=read,
        before=file.before,
        after=file.after,
        target=target,
        changes=changes,
        preflight=Preflight(
            problems=(*problems, *preflight.problems),
            warnings=preflight.warnings,
            effects=preflight.effects,
        ),
        left_out=tuple(file.report.lines()),
    )


async def plan_undo(
    session: ServerSession, link: ConnectionLink, documents: Mapping[str, Any]
) -> PushPlan:
    """Returns what takes a push back: the fields that it wrote, as they were before.

    `documents` are the server's documents `before` and `after` that push, secrets included.
    Raises: PushStopped, also where one of the fields was changed since; EditorFault.
    """
    read, link = await session.pull.merged(link)
    if read is None:
        raise PushStopped("push_gone")
    was, pushed = documents["after"], documents["before"]
    try:
        target = await run_limited(patched, read.document, was, pushed, clean=False)
    except PatchConflict as exc:
        names = entry_names(was, pushed)
        places = ", ".join(shown_path(path, names) for path in exc.paths[:5])
        raise PushStopped("push_undo_conflict", places=places) from exc
    form = FORMATS[session.connection.kind]
    plan = await run_limited(PushPlan.between, read, target, form)
    return replace(plan, preflight=await session.editor.preflight(read, target))
