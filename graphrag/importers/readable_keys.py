"""Makes readable keys from names: for graphs, nodes, edges and handle points."""

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
    """Return lower-case ASCII words joined by hyphens; empty when the text has no Latin
    letter or digit.
    """
    spelt = text.translate(PLAIN_LETTERS)
    plain = unicodedata.normalize("NFKD", spelt).encode("ascii", "ignore").decode("ascii").lower()
    return _NOT_PLAIN.sub("-", plain).strip("-")[:limit].rstrip("-")


def digest(*parts: str) -> str:
    """Return six characters that differ between different texts."""
    joined = "\x00".join(parts).encode("utf-8", "replace")
    return hashlib.blake2b(joined, digest_size=3).hexdigest()


def node_key_base(name: str) -> str:
    """Return the key a node of this name gets when no other has it."""
    return slug(name) or f"node-{digest(name)}"


def clean(text: str, *, limit: int = 200) -> str:
    """Return text as a key may be: no control characters, not too long."""
    return _CONTROL.sub(" ", text).strip()[:limit].strip()


def key_fault(key: str) -> str | None:
    """Return why a graph could not be asked for by this key, None for a good one.

    Decision: a key stands in addresses, where servers and proxies take some spellings for
    others. Such a key makes no new graph; graphs that have one stay listed, and reachable but
    by an address.
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
    """Return what a file is called, without folders and the last suffix, as valid Unicode."""
    stem = PurePath(file_name.replace("\\", "/")).stem
    return stem.encode("utf-8", "replace").decode("utf-8").strip()


def derive_graph_key(*, name: str | None, identity: str | None, file_name: str) -> str:
    """Return the key that the same workflow gets each time it is imported.

    Two workflows of one name must not overwrite each other, so the name is joined by the
    workflow's own id or, where it has none, by the name of its file.
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
    """Return a graph's key as only this workspace makes it, from one that another may have.

    The answer does not show whether the other has it: every new key gets the ending.
    """
    ending = "-" + hashlib.blake2b(workspace.encode("utf-8", "replace"), digest_size=4).hexdigest()
    return key if key.endswith(ending) else key[: MAX_KEY - len(ending)] + ending


def edge_key(source: str, source_handle: str, target: str, target_handle: str) -> str:
    """Return the key of the edge between two handles."""
    key = f"{source}.{source_handle}--{target}.{target_handle}"
    return key if len(key) <= 190 else f"{key[:180]}-{digest(key)}"


class KeyMaker:
    """Hands out keys that nobody has, in the order asked for."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def make(self, base: str) -> str:
        """Return `base`, or `base-2`, `base-3`, … when it is taken."""
        key = base
        number = self._next.get(base, 2)
        while key in self._taken:
            key = f"{base}-{number}"
            number += 1
        self._next[base] = number
        self._taken.add(key)
        return key
