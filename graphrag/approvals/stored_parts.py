"""The large parts of a settled approval, in separate records: its undo data and its preview.

Decision: lists read approvals without these parts. A part is compressed JSON: `undo` (the mutation
and its inverse) is read for an undo or an earlier state of the graph, `approval_shown` (the
preview, and the documents of a file) when an approval is read by its id. Approvals stored by older
versions contain both parts and are read as they are.
"""

from __future__ import annotations

import asyncio
import base64
import lzma
from collections.abc import Mapping
from typing import Any

import orjson

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import BadDocument
from graphrag.approvals.approval import Apart, Approval, from_record
from tools.proposals import ImportFileAction, parse_action, to_document

UNDO: Apart = "undo"
SHOWN: Apart = "approval_shown"
PARTS: tuple[Apart, ...] = (UNDO, SHOWN)
INLINE_BYTES = 4_000  # what an approval shows is kept in its own record up to this size of its JSON
LISTED_KEYS = 100  # keys of one kind that a list has of a result
_UNDOING = ("mutation", "inverse", "irregular")
_PRESET = 1  # of lzma: finds what a document before and after a change share, at 15 MB/s


def apart(approval: Approval) -> tuple[Approval, list[RecordWrite]]:
    """Returns a settled approval marked as stored in parts, and the writes of the parts."""
    shown = _shown(approval)
    undoing = _undoing(approval)
    parts: dict[Apart, dict[str, Any]] = {}
    if undoing:
        parts[UNDO] = undoing
    if len(orjson.dumps(shown)) > INLINE_BYTES:
        parts[SHOWN] = shown
    at = approval.result.at if approval.result else approval.created
    writes = [_write(kind, approval, at, content) for kind, content in parts.items()]
    size = sum(write.data["bytes"] for write in writes if write.data)
    return approval.changed(apart=tuple(parts), apart_bytes=size), writes


def _write(kind: Apart, approval: Approval, at: int, content: dict[str, Any]) -> RecordWrite:
    packed = base64.b64encode(lzma.compress(orjson.dumps(content), preset=_PRESET)).decode()
    data = {"graphKey": approval.graph_key, "time": at, "bytes": len(packed), "content": packed}
    return RecordWrite(kind=kind, key=approval.id, data=data, expected_version=None)


def _undoing(approval: Approval) -> dict[str, Any]:
    found = {name: getattr(approval.result, name) for name in _UNDOING} if approval.result else {}
    return {name: part for name, part in found.items() if part}


def _shown(approval: Approval) -> dict[str, Any]:
    result = approval.result
    decision = approval.decision
    found = {
        "preview": approval.preview,
        "touched": approval.touched,
        "action": to_document(approval.action)
        if isinstance(approval.action, ImportFileAction)
        else None,
        "keys": result.keys if result else None,
        "conversion": result.conversion if result else None,
        "decided": decision.preview if decision else None,
    }
    return {name: part for name, part in found.items() if part}


def listed(approval: Approval) -> Approval:
    """Returns an approval without the parts in separate records, as in lists."""
    result = approval.result
    decision = approval.decision
    action = approval.action
    changes: dict[str, Any] = {}
    if UNDO in approval.apart and result is not None:
        result = result.model_copy(update={"mutation": None, "inverse": None, "irregular": []})
    if SHOWN in approval.apart:
        changes |= {"preview": {}, "touched": {}}
        if isinstance(action, ImportFileAction):
            payload = type(action.payload)(file=action.payload.file, counted=action.payload.count)
            changes["action"] = action.model_copy(update={"payload": payload})
        if result is not None:
            result = result.model_copy(
                update={"conversion": None, **_few_keys(result.keys, result.counts)}
            )
        if decision is not None:
            decision = decision.model_copy(update={"preview": None})
    return approval.changed(result=result, decision=decision, **changes)


def _few_keys(keys: Mapping[str, list[str]], counts: Mapping[str, int] | None) -> dict[str, Any]:
    more = {kind: len(found) for kind, found in keys.items() if len(found) > LISTED_KEYS}
    return {
        "keys": {kind: found[:LISTED_KEYS] for kind, found in keys.items()},
        "counts": counts or more or None,
    }


def head_write(approval: Approval) -> RecordWrite:
    """Returns the write that stores an approval without its parts over the version that
    was read.
    """
    return listed(approval).write()


async def with_shown(records: RecordStore, approval: Approval) -> Approval:
    """Returns an approval with its preview; without it if it is no longer stored."""
    if SHOWN not in approval.apart:
        return approval
    content = await _content(records, SHOWN, approval.id)
    if content is None:
        return approval
    changes: dict[str, Any] = {
        "preview": content.get("preview", {}),
        "touched": content.get("touched", {}),
    }
    if "action" in content:
        changes["action"] = await asyncio.to_thread(parse_action, content["action"])
    if approval.result is not None:
        found = {
            "keys": content.get("keys", {}),
            "conversion": content.get("conversion"),
            "counts": None,
        }
        changes["result"] = approval.result.model_copy(update=found)
    if approval.decision is not None and "decided" in content:
        changes["decision"] = approval.decision.model_copy(update={"preview": content["decided"]})
    return approval.changed(**changes)


async def with_undo(records: RecordStore, approval: Approval) -> Approval:
    """Returns an approval with its undo data; without them if they are no longer stored."""
    if (
        UNDO not in approval.apart
        or approval.result is None
        or approval.result.mutation is not None
    ):
        return approval
    content = await _content(records, UNDO, approval.id)
    found = {name: content[name] for name in _UNDOING if name in content} if content else {}
    return approval.changed(result=approval.result.model_copy(update=found))


async def _content(records: RecordStore, kind: Apart, key: str) -> dict[str, Any] | None:
    record = await records.get(kind, key)
    return None if record is None else await asyncio.to_thread(_unpacked, record)


def _unpacked(record: Record) -> dict[str, Any]:
    try:
        return orjson.loads(lzma.decompress(base64.b64decode(record.data["content"])))
    except (KeyError, ValueError, TypeError, lzma.LZMAError) as exc:
        raise BadDocument(
            collection=record.kind, key=record.key, field="content", reason=str(exc)
        ) from exc


async def whole_approval(records: RecordStore, approval_id: str) -> Approval | None:
    """Returns an approval with all its parts, or None. Raises: BadDocument."""
    record = await records.get("approval", approval_id)
    if record is None:
        return None
    approval = await asyncio.to_thread(from_record, record)
    return await with_undo(records, await with_shown(records, approval))
