"""The history of a graph: edits by hand, applied proposals and undos of both, as one list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from datasources.base import Record, RecordStore
from datasources.errors import BadDocument
from graphrag.approvals import Approval, title
from graphrag.approvals.approval import KIND, from_record
from graphrag.i18n import Language, text
from graphrag.leases import now_ms
from graphrag.live import PastEdit, journalled_history, past_edits
from graphrag.sessions.periods import Calendar, Span, resolve
from graphrag.sessions.schedules import zone_of
from tools.base import Past, PastChange, PastChanges

LOOKED_THROUGH = (100, 1_000)
"""So many applied proposals are read at first, and at most; what is older is not in the history."""
KEYS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphHistory:
    """Implements History for one workspace.

    Periods count from `reference`, in milliseconds since 1970 (None: now), by the calendar.
    """

    records: RecordStore
    calendar: Calendar = field(default_factory=Calendar)
    reference: int | None = None
    clock: Callable[[], int] = now_ms

    async def __call__(self, graph_key: str, past: Past) -> PastChanges:
        """Return the changes asked for. Raises: PeriodError, SourceError."""
        now = self.clock() if self.reference is None else self.reference
        given = resolve(past.start or past.end, past.end, now, self.calendar)
        span = given if past.start is not None else Span(0, given.end)
        asked = _Asked(past)
        unsaved = await journalled_history(self.records, graph_key)
        limit = past.limit + 1
        edits = await past_edits(
            self.records,
            graph_key,
            unsaved,
            limit=limit,
            start=span.start,
            end=span.end,
            about=asked.is_in_entry,
        )
        zone = zone_of(self.calendar.timezone)
        rows = [(edit.at, _edit(edit, zone, past.language)) for edit in edits]
        for at, approval in await self._applied(graph_key, asked, span, limit):
            rows.append((at, _change(approval, at, zone, past.language)))
        rows.sort(key=lambda row: -row[0])
        return PastChanges(
            changes=tuple(change for _, change in rows[: past.limit]),
            start=None if past.start is None else iso(span.start, zone),
            end=iso(span.end, zone),
            more=len(rows) > past.limit,
        )

    async def _applied(
        self, graph_key: str, asked: _Asked, span: Span, limit: int
    ) -> list[tuple[int, Approval]]:
        """Return what was applied in the period, with its time. It was proposed before it was applied."""
        where = {"graphKey": graph_key, "status": "applied"}
        found: list[tuple[int, Approval]] = []
        for at_once in LOOKED_THROUGH:
            records = await self.records.query(
                KIND, where, order_by="createdTime", at_most=span.end, descending=True, limit=at_once
            )
            found = await asyncio.to_thread(_within, records, asked, span)
            if len(found) >= limit or len(records) < at_once:
                break
        return found[:limit]


def iso(at: int, zone: ZoneInfo) -> str:
    """Return an instant on a zone's clock in ISO 8601 with its offset."""
    local = datetime.fromtimestamp(at / 1000, zone)
    return local.isoformat(timespec="milliseconds" if local.microsecond else "seconds")


@dataclass(frozen=True, slots=True)
class _Asked:
    """Says whether a change is about what was asked for."""

    past: Past

    def is_in_entry(self, entry: Mapping[str, Any]) -> bool:
        past = self.past
        if (past.node, past.edge, past.sheet, past.node_type) == (None, None, None, None):
            return True
        nodes, edges = entry.get("nodes") or (), entry.get("edges") or ()
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
        past, result = self.past, approval.result
        if result is None or (past.node, past.edge, past.sheet, past.node_type) == (None, None, None, None):
            return result is not None
        keys = {key for name, found in result.keys.items() if name.startswith("types") for key in found}
        if past.node_type is not None and any(_type_named(key, past.node_type) for key in keys):
            return True
        return any(self._is_among(nodes, edges) for nodes, edges in _documents(approval))

    def _is_among(self, nodes: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]]) -> bool:
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
    """Yield the nodes and edges of what was stored and of what was there before."""
    result = approval.result
    for part in (result.mutation, result.inverse) if result else ():
        if part is not None:
            yield part.get("putNodes") or (), part.get("putEdges") or ()


def _type_named(key: str, name: str) -> bool:
    return key == name or key.endswith(f"/{name}")


def _within(records: Sequence[Record], asked: _Asked, span: Span) -> list[tuple[int, Approval]]:
    """Return the readable approvals that were applied in the period, newest first."""
    found: list[tuple[int, Approval]] = []
    for record in records:
        with suppress(BadDocument):
            approval = from_record(record)
            at = approval.result.at if approval.result else 0
            if span.start <= at < span.end and asked.is_in_approval(approval):
                found.append((at, approval))
    return sorted(found, key=lambda one: -one[0])


def _edit(edit: PastEdit, zone: ZoneInfo, language: Language) -> PastChange:
    return PastChange(
        time=iso(edit.at, zone),
        kind="edit" if edit.undoes is None else "undo",
        who=edit.user_id,
        what="; ".join(dict.fromkeys(_step(step, language) for step in edit.steps()[:KEYS_SHOWN])),
        undone=edit.undone_by is not None,
    )


def _step(step: Mapping[str, Any], language: Language) -> str:
    keys = step["keys"]
    more = f" (+{len(keys) - KEYS_SHOWN})" if len(keys) > KEYS_SHOWN else ""
    facts = {
        "keys": ", ".join(keys[:KEYS_SHOWN]) + more,
        "field": step.get("field") or step.get("name") or "",
    }
    return text(f"edit_{step['type']}", language, **facts).strip()


def _change(approval: Approval, at: int, zone: ZoneInfo, language: Language) -> PastChange:
    return PastChange(
        time=iso(at, zone),
        kind="change" if approval.undoes is None else "undo",
        who=approval.decision.by if approval.decision else approval.asker,
        what=title(approval, language),
        proposal=approval.id,
        undone=approval.undone_by is not None,
    )
