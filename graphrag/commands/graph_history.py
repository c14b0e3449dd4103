"""The changes of a graph, or of one element of it, in a period, in words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, final
from zoneinfo import ZoneInfo

from datasources.base import RecordStore
from graphrag.approvals import Approval, title
from graphrag.i18n import Language, text
from graphrag.leases import now_ms
from graphrag.live import Revision, Revisions, journalled_history
from graphrag.sessions.periods import Calendar, Span, resolve
from graphrag.sessions.schedules import zone_of
from tools.actions.file_action import ImportFileAction
from tools.past_changes import Past, PastChange, PastChanges

# Maximum number of applied proposals that are read. Older ones are not shown.
LOOKED_THROUGH = 1_000
KEYS_SHOWN = 5
STEPS_OF_KEYS = {
    "nodesCreated": "nodeCreate",
    "nodesChanged": "nodeUpdate",
    "nodesDeleted": "nodeDelete",
}
"""How the nodes of an applied proposal are told: as those of an edit."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphHistory:
    """Implements History for one workspace.

    Periods are relative to `reference`, in milliseconds since 1970 (None: now), in the calendar.
    """

    records: RecordStore
    calendar: Calendar = field(default_factory=Calendar)
    reference: int | None = None
    clock: Callable[[], int] = now_ms

    @property
    def now(self) -> int:
        """The instant that periods are relative to."""
        return self.clock() if self.reference is None else self.reference

    def iso(self, at: int) -> str:
        """Returns an instant in the calendar's time zone, to the second."""
        return iso(at - at % 1000, zone_of(self.calendar.timezone))

    async def __call__(self, graph_key: str, past: Past) -> PastChanges:
        """Returns the requested changes. Raises: PeriodError, SourceError."""
        given = resolve(past.start or past.end, past.end, self.now, self.calendar)
        span = given if past.start is not None else Span(0, given.end)
        asked = _ChangeFilter(past)
        zone = zone_of(self.calendar.timezone)
        unsaved = await journalled_history(self.records, graph_key)
        changes: list[PastChange] = []
        count = 0
        history = Revisions(self.records, graph_key, unsaved, with_undo=not asked.is_all)
        # What is done in this very millisecond was done until now.
        before = None if (past.end, self.reference) == ("NOW", None) else span.end
        async with aclosing(history.newest_first(before=before, past_cut=True)) as revisions:
            async for revision in revisions:
                count += revision.edit is None
                if revision.at < span.start or len(changes) > past.limit or count > LOOKED_THROUGH:
                    break
                if await asyncio.to_thread(asked.is_about, revision):
                    changes.append(_shown(revision, zone, past.language))
        return PastChanges(
            changes=tuple(changes[: past.limit]),
            start=None if past.start is None else iso(span.start, zone),
            end=iso(span.end, zone),
            more=len(changes) > past.limit,
        )


def iso(at: int, zone: ZoneInfo) -> str:
    """Returns an instant in ISO 8601 with the offset of the time zone."""
    local = datetime.fromtimestamp(at / 1000, zone)
    return local.isoformat(timespec="milliseconds" if local.microsecond else "seconds")


@final
@dataclass(frozen=True, slots=True)
class _ChangeFilter:
    """Decides whether a change concerns the requested element."""

    past: Past

    def is_about(self, revision: Revision) -> bool:
        if revision.edit is not None:
            return any(map(self.is_in_entry, revision.edit.entries))
        if revision.approval is None:
            return self.is_all
        return self.is_in_approval(revision.approval)

    @property
    def is_all(self) -> bool:
        past = self.past
        return (past.node, past.edge, past.sheet, past.node_type) == (None, None, None, None)

    def is_in_entry(self, entry: Mapping[str, Any]) -> bool:
        past = self.past
        if self.is_all:
            return True
        nodes = entry.get("nodes") or ()
        edges = entry.get("edges") or ()
        if self._is_among(nodes, edges):
            return True
        kind = str(entry.get("type"))
        sheet = entry.get("key") if kind.startswith("sheet") else entry.get("sheetId")
        return (
            (past.node is not None and entry.get("nodeId") == past.node)
            or (past.edge is not None and entry.get("edgeId") == past.edge)
            or (past.sheet is not None and sheet == past.sheet)
        )

    def is_in_approval(self, approval: Approval) -> bool:
        past = self.past
        result = approval.result
        if result is None or self.is_all:
            return result is not None
        keys = {
            key for name, found in result.keys.items() if name.startswith("types") for key in found
        }
        if past.node_type is not None and any(
            f"/{key}".endswith(f"/{past.node_type}") for key in keys
        ):
            return True
        return any(self._is_among(nodes, edges) for nodes, edges in _documents(approval))

    def _is_among(
        self, nodes: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]]
    ) -> bool:
        past = self.past
        if past.node is not None:
            ends = (end for edge in edges for end in (edge.get("source"), edge.get("target")))
            return any(node.get("_key") == past.node for node in nodes) or past.node in ends
        if past.edge is not None:
            return any(edge.get("_key") == past.edge for edge in edges)
        if past.sheet is not None:
            return any(one.get("sheet") == past.sheet for one in (*nodes, *edges))
        return any(node.get("type") == past.node_type for node in nodes)


def _documents(approval: Approval) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    """Yields the nodes and edges after a change and before it."""
    result = approval.result
    for part in (result.mutation, result.inverse) if result else ():
        if part is not None:
            yield part.get("putNodes") or (), part.get("putEdges") or ()


def _shown(revision: Revision, zone: ZoneInfo, language: Language) -> PastChange:
    what = what_was_done(revision, language)
    return PastChange(
        time=iso(revision.at, zone),
        kind="undo" if revision.kind == "undo" else "edit" if revision.edit else "change",
        who=revision.by,
        what=text("title_undo", language, what=what) if revision.kind == "undo" else what,
        proposal=revision.approval.id if revision.approval else "",
        undone=revision.undone_by is not None,
    )


def what_was_done(revision: Revision, language: Language) -> str:
    """Returns the changes of a revision in words."""
    if revision.approval is not None:
        return _titled(revision.approval, language)
    if revision.kind in ("renamed", "restored") or (
        revision.edit is None and "file" not in revision.facts
    ):
        name = str(revision.facts.get("to") or "")
        return text(f"edit_{revision.kind}", language, name=name)
    if revision.edit is None:
        return text("title_import", language, file=str(revision.facts.get("file") or ""))
    steps = revision.edit.steps()[:KEYS_SHOWN]
    return "; ".join(dict.fromkeys(_step(step, language) for step in steps))


def _titled(approval: Approval, language: Language) -> str:
    """Returns the title of an applied proposal, for a file with the nodes that it changed."""
    said = title(approval, language)
    if approval.result is None or not isinstance(approval.effective_action, ImportFileAction):
        return said
    keys = approval.result.keys
    steps = [
        _step({"type": step, "keys": keys[kind]}, language)
        for kind, step in STEPS_OF_KEYS.items()
        if keys.get(kind)
    ]
    return f"{said}: {'; '.join(steps)}" if steps else said


def _step(step: Mapping[str, Any], language: Language) -> str:
    keys = step["keys"]
    more = f" (+{len(keys) - KEYS_SHOWN})" if len(keys) > KEYS_SHOWN else ""
    facts = {
        "keys": ", ".join(keys[:KEYS_SHOWN]) + more,
        "field": step.get("field") or step.get("name") or "",
    }
    return text(f"edit_{step['type']}", language, **facts).strip()
