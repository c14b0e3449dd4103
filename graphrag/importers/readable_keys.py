"""Derives readable keys of graphs, nodes, edges and handle points from names."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePath

from datasources.text import PLAIN_LETTERS

MAX_SLUG = 60
MAX_KEY = 200
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")


def slug(text: str, *, limit: int = MAX_SLUG) -> str:
    """Returns the text as lower-case ASCII words joined by hyphens, empty without a Latin letter or
    digit.
    """
    spelt = text.translate(PLAIN_LETTERS)
    plain = unicodedata.normalize("NFKD", spelt).encode("ascii", "ignore").decode("ascii").lower()
    return _NOT_PLAIN.sub("-", plain).strip("-")[:limit].rstrip("-")


def digest(*parts: str) -> str:
    """Returns six hexadecimal digits of a hash of the parts."""
    joined = "\x00".join(parts).encode("utf-8", "replace")
    return hashlib.blake2b(joined, digest_size=3).hexdigest()


def node_key_base(name: str) -> str:
    """Returns the preferred key of a node with this name; `KeyMaker` numbers it if it is used."""
    return slug(name) or f"node-{digest(name)}"


def clean(text: str, *, limit: int = 200) -> str:
    """Returns the text without control characters and outer space, cut to `limit` characters."""
    return _CONTROL.sub(" ", text).strip()[:limit].strip()


def key_fault(key: str) -> str | None:
    """Returns why a key cannot be the key of a new graph, None if it can.

    Decision: a key is part of addresses, where servers and proxies rewrite some spellings. A new
    graph cannot have such a key. Existing graphs with one stay listed, and can be used by every way
    but an address.
    """
    if not key or len(key) > MAX_KEY or _CONTROL.search(key):
        return f"a graph key has 1-{MAX_KEY} characters, none of them a control character"
    if key != key.strip():
        return "a graph key neither begins nor ends with a space"
    if "/" in key or "\\" in key or set(key) == {"."}:
        return "a graph key has no slash and is not made of dots: it stands in addresses"
    if _ESCAPE.search(key):
        return (
            "a graph key has no % with two hexadecimal digits: in addresses it reads as another key"
        )
    try:
        key.encode()
    except UnicodeEncodeError:
        return "a graph key is valid Unicode"
    return None


def file_stem(file_name: str) -> str:
    """Returns a file name without folders and the last suffix, as valid Unicode."""
    stem = PurePath(file_name.replace("\\", "/")).stem
    return stem.encode("utf-8", "replace").decode("utf-8").strip()


def derive_graph_key(*, name: str | None, identity: str | None, file_name: str) -> str:
    """Returns the key of an imported workflow, the same at each import.

    Two workflows of one name must not overwrite each other, so the key contains the name and the
    workflow's id or, if it has none, the name of its file.
    """
    stem = file_stem(file_name)
    base = slug(name or stem)
    if identity is not None:
        return f"{base or 'workflow'}-{digest(identity)}"
    tail = slug(stem, limit=40)
    if base and (not tail or tail == base):
        return base
    if base:
        return f"{base}-{tail}"
    return f"workflow-{tail or digest(name or '', stem)}"


def own_key(key: str, workspace: str) -> str:
    """Returns a graph key with an ending that is specific to the workspace.

    Every new key gets the ending, so it does not reveal whether another workspace has the key.
    """
    ending = "-" + hashlib.blake2b(workspace.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return key if key.endswith(ending) else key[: MAX_KEY - len(ending)] + ending


def edge_key(source: str, source_handle: str, target: str, target_handle: str) -> str:
    """Returns the key of an edge between two handles."""
    key = f"{source}.{source_handle}--{target}.{target_handle}"
    return key if len(key) <= 190 else f"{key[:180]}-{digest(key)}"


class KeyMaker:
    """Makes keys that are unique among `used` and those made before."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)
        self._next: dict[str, int] = {}

    def make(self, base: str) -> str:
        """Returns `base` or, if it is used, the first free of `base-2`, `base-3`, …"""
        key = base
        number = self._next.get(base, 2)
        while key in self._used:
            key = f"{base}-{number}"
            number += 1
        self._next[base] = number
        self._used.add(key)
        return key
