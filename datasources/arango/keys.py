"""Document keys: what ArangoDB refuses in a key is written in another way, and read back.

Decision: a key that the server takes is stored as Nodius writes it, `{graphKey}-{localKey}`. Any
other is percent-encoded, or where that is too long replaced by a digest; the document then holds
its local key in `localKey`, which is what readers go by.

Decision: hyphens are not encoded. Graph `a` with node `b-c` and graph `a-b` with node `c` then share
a document key; the later write is refused by name, and neither reads or overwrites the other. To
encode them would lose the documents of Nodius, which a key alone does not tell from ours, or cost
two look-ups a key. To occupy keys of a graph in advance one must own the graph of the part
before a hyphen and guess local keys: those made for editors and proposals are random.

Source: ArangoDB 3.12 documentation, "Document keys" (254 bytes of a few ASCII characters).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from datasources.arango.names import LOCAL_KEY, NODES

MAX_BYTES = 254
_PLAIN = re.compile(r"[A-Za-z0-9_\-.@()+,=;$!*':%]+")
_ENCODED = re.compile(r"%[0-9A-F]{2}")
_REFUSED = re.compile(r"[^A-Za-z0-9_\-.@()+,=;$!*':]")


def is_plain(key: str) -> bool:
    """Say whether the server takes the key as it is, and it does not read like an encoded one."""
    return len(key) <= MAX_BYTES and bool(_PLAIN.fullmatch(key)) and not _ENCODED.search(key)


def encoded(key: str) -> str:
    """Return a key that the server takes; a plain one unchanged, two keys never the same."""
    if is_plain(key):
        return key
    written = _REFUSED.sub(lambda found: "".join(f"%{byte:02X}" for byte in _bytes(found[0])), key)
    if len(written) <= MAX_BYTES:
        return written
    return "%%" + hashlib.sha256(_bytes(key)).hexdigest().upper()  # no other key is written with two %


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def document_key(graph_key: str, local_key: str) -> str:
    """Return the `_key` of a node or an edge of a graph."""
    if is_plain(graph_key) and is_plain(local_key):
        return encoded(f"{graph_key}-{local_key}")
    # A zero byte is in no key: graph and local key cannot run into each other.
    return encoded(f"{graph_key}\0{local_key}")


def node_id(graph_key: str, local_key: str) -> str:
    return f"{NODES}/{document_key(graph_key, local_key)}"


def vectors_key(graph_key: str) -> str:
    """Return the `_key` of what marks a graph's vectors, among the facts about the database."""
    return encoded(f"vectors:{graph_key}")


def is_as_nodius(graph_key: str, local_key: str) -> bool:
    """Say whether the local key can be read off the `_key` again."""
    return document_key(graph_key, local_key) == f"{graph_key}-{local_key}"


def local_key(document: Mapping[str, Any], graph_key: str) -> str:
    """Return the local key of a stored node or edge."""
    kept = document.get(LOCAL_KEY)
    return kept if isinstance(kept, str) else str(document["_key"])[len(graph_key) + 1 :]


def own_key(document: Mapping[str, Any]) -> str:
    """Return the key of a stored document that belongs to no graph."""
    kept = document.get(LOCAL_KEY)
    return kept if isinstance(kept, str) else str(document["_key"])


def end_key(document: Mapping[str, Any], end: str, graph_key: str) -> str:
    """Return the local key of the node at an end (`_from`, `_to`) of a stored edge."""
    kept = document.get("source" if end == "_from" else "target")
    if isinstance(kept, str):
        return kept
    return str(document[end]).partition("/")[2][len(graph_key) + 1 :]
