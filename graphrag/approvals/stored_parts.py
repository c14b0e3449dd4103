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
from graphrag.approvals.approval import Apart, Approval
from tools.proposals import ImportFileAction, parse_action, to_document

UNDO: Apart = "undo"
SHOWN: Apart = "approval_shown"
PARTS: tuple[Apart, ...] = (UNDO, SHOWN)
# Maximum size of the preview parts (JSON) that stay in the record of the approval.
INLINE_BYTES = 4_000
LISTED_KEYS = 100  # Maximum number of keys of one kind in a result, in lists of approvals.
_UNDO_FIELDS = ("mutation", "inverse", "irregular")
# The preset of lzma. It compresses what a document has in common before and after, at 15 MB/s.
_PRESET = 1


def apart(approval: Approval) -> tuple[Approval, list[RecordWrite]]:
    """Returns a settled approval marked as stored in parts, and the writes of the parts."""
    shown = _shown(approval)
    undo_data = _undo_parts(approval)
    parts: dict[Apart, dict[str, Any]] = {}
    if undo_data:
        parts[UNDO] = undo_data
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


def _undo_parts(approval: Approval) -> dict[str, Any]:
    if approval.result is None:
        return {}
    parts = {name: getattr(approval.result, name) for name in _UNDO_FIELDS}
    return {name: part for name, part in parts.items() if part}


def _shown(approval: Approval) -> dict[str, Any]:
    result = approval.result
    decision = approval.decision
    parts = {
        "preview": approval.preview,
        "touched": approval.touched,
        "action": to_document(approval.action)
        if isinstance(approval.action, ImportFileAction)
        else None,
        "keys": result.keys if result else None,
        "conversion": result.conversion if result else None,
        "decided": decision.preview if decision else None,
    }
    return {name: part for name, part in parts.items() if part}


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
    more = {
        kind: len(kind_keys) for kind, kind_keys in keys.items() if len(kind_keys) > LISTED_KEYS
    }
    return {
        "keys": {kind: kind_keys[:LISTED_KEYS] for kind, kind_keys in keys.items()},
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
        result_parts = {
            "keys": content.get("keys", {}),
            "conversion": content.get("conversion"),
            "counts": None,
        }
        changes["result"] = approval.result.model_copy(update=result_parts)
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
    parts = {name: content[name] for name in _UNDO_FIELDS if name in content} if content else {}
    return approval.changed(result=approval.result.model_copy(update=parts))


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
