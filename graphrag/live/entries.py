"""Entries of history for a changed node or edge: what was applied and what takes it back.

A large new value is not stored: the graph holds it, and the entry its digest. So a series of large
edits of one place is stored once, as the values before each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import orjson

from datasources.instructions import Instruction
from datasources.types import Edge, Node

LARGE_BYTES = 8_000


def update_entry(
    target: Node | Edge, after: dict[str, Any], done: Instruction, undoing: Sequence[Instruction]
) -> dict[str, Any]:
    """Return the entry of an instruction that made `target` the document `after`."""
    kind = "node" if isinstance(target, Node) else "edge"
    instruction = done.to_document()
    if "v" in instruction and len(orjson.dumps(instruction["v"])) > LARGE_BYTES:
        del instruction["v"]
        instruction["digest"] = digest(value_at(after, done.p))
    return {
        "type": f"{kind}Update",
        "sheetId": target.sheet,
        f"{kind}Id": target.key,
        "instruction": instruction,
        "reversedInstruction": [each.to_document() for each in undoing],
    }


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def value_at(document: Any, path: Sequence[str]) -> Any:
    """Return the value at a path, None where there is none."""
    value = document
    for part in path:
        value = child(value, part)
    return value


def child(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return cast(dict[str, Any], value).get(part)
    if isinstance(value, list) and part.isascii() and part.isdigit():
        items = cast(list[Any], value)
        return items[int(part)] if len(part) < 10 and int(part) < len(items) else None
    return None
