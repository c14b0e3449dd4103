"""Records as documents of a collection: their collection, their name in it, their stored form.

The fields of a record stand in the document as they are, so that another client reads a thread or
an approval as the reference stores it. What is ours alone is in `rag`: the record's kind and key, the
name of the last write, and fields that a collection reserves for itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

import orjson

from datasources.arango.names import RECORD_COLLECTIONS
from datasources.base import Record
from datasources.errors import BadDocument
from datasources.types import is_storable

LEASES_KEPT_S = 86_400
"""A lease that ended so long ago is removed by the server."""

_LONGEST = 250
_UNIQUE_ALONE = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLAIN = re.compile(r"[A-Za-z0-9_\-.@()+,=;$!*'%:]{1,254}")


def names_of(workspace: str, kind: str, key: str) -> list[str]:
    """Return the `_key`s that a record may have, that of a new one first.

    Decision: a thread whose key is unique by itself is named by it alone, as the reference does;
    any other record carries its workspace, since other workspaces may use the same key. A thread
    that the reference made is found by whatever key it gave it.
    """
    parts = [workspace, key] if kind in RECORD_COLLECTIONS else [workspace, kind, key]
    scoped = ":".join(quote(part, safe="-_.@()+,=;$!'") for part in parts)
    if len(scoped) > _LONGEST:
        digest = hashlib.sha256(scoped.encode()).hexdigest()
        scoped = f"{scoped[: _LONGEST - len(digest) - 1]}*{digest}"
    if kind != "thread" or not _PLAIN.fullmatch(key):
        return [scoped]
    return [key] if _UNIQUE_ALONE.fullmatch(key) else [scoped, key]


def to_document(
    workspace: str, kind: str, key: str, data: Mapping[str, Any], *, write: str
) -> dict[str, Any]:
    """Return the document of a record, without its `_key`. Raises: BadDocument for what JSON cannot hold."""
    plain = _as_json(kind, key, data)
    rag: dict[str, Any] = {"kind": kind, "key": key, "write": write}
    if "workspace" not in plain:
        rag["bare"] = True
    hidden = {name: value for name, value in plain.items() if _is_reserved(name, value, workspace)}
    if hidden:
        rag["hidden"] = hidden
    until = plain.get("expiresTime")
    if kind == "lease" and isinstance(until, int | float):
        rag["until"] = until // 1000 + LEASES_KEPT_S
    shown = {name: value for name, value in plain.items() if name not in hidden}
    return {**shown, "workspace": workspace, "rag": rag}


def from_document(kind: str, document: Mapping[str, Any]) -> Record:
    """Read a stored record, also one that another client wrote."""
    rag = _own(document)
    data = {name: value for name, value in document.items() if name[:1] != "_" and name != "rag"}
    if rag.get("bare"):
        data.pop("workspace", None)
    data.update(rag.get("hidden", {}))
    key = str(rag.get("key", document["_key"]))
    return Record(kind=kind, key=key, data=data, version=str(document["_rev"]))


def written_by(document: Mapping[str, Any]) -> str | None:
    """Return the name of the write that made the document what it is."""
    return _own(document).get("write")


def _own(document: Mapping[str, Any]) -> Mapping[str, Any]:
    rag = document.get("rag")
    return cast(Mapping[str, Any], rag) if isinstance(rag, dict) else {}


def _is_reserved(name: str, value: Any, workspace: str) -> bool:
    return name[:1] in ("", "_") or name == "rag" or (name == "workspace" and value != workspace)


def _as_json(kind: str, key: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data apart from the caller's objects, as JSON has it."""
    for text in (kind, key):
        if not is_storable(text):
            raise BadDocument(
                collection=kind, key=key, field="_key", reason="it has half of a surrogate pair"
            )
    try:
        return orjson.loads(orjson.dumps(data))
    except TypeError as exc:
        raise BadDocument(collection=kind, key=key, field="data", reason=str(exc)) from exc
