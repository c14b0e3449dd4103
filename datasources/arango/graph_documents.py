"""Converts documents between our form, with local keys, and ArangoDB's, with keys and fields
of its own.

Decision: a key that the server accepts is stored as Nodius writes it, `{graphKey}-{localKey}`. Any
other is percent-encoded, or replaced by a digest if that is too long; the document then holds its
local key in `localKey`, which readers use.

Decision: hyphens are not encoded. Graph `a` with node `b-c` and graph `a-b` with node `c` then
share a document key: the later write is refused by name, and neither reads or overwrites the other.
Encoding them would lose the documents of Nodius, whose keys look like ours, or cost two look-ups
a key. An attacker who wants to occupy keys of a graph in advance needs a graph named by the part
before a hyphen, and must guess local keys: those made for editors and proposals are random.

A node is stored with its own words (for those of its type see `type_words`). `of` is a digest of
the fields that `Node` declares as searched and of the version of its words. If it no longer
matches, another program wrote the node, which is searched by its text until `nodius db init` counts
its words.

Source: ArangoDB 3.12 documentation, "Document keys" (254 bytes of a few ASCII characters).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import orjson

from datasources.arango import layout
from datasources.arango.layout import LOCAL_KEY, NODES
from datasources.hits import NodeVector, Vector
from datasources.links import Link
from datasources.mutations import encode_document
from datasources.text import label_in, letters, node_text, tokenize
from datasources.types import Edge, Graph, Node, NodeTypeConfig, parse_document
from datasources.uses import entries_of


def word_update(stored: Mapping[str, Any], language: str | None) -> dict[str, Any]:
    """Returns the update that counts the words of a stored node again.

    Raises: BadDocument, KeyError.
    """
    words = own_words(read_document(Node, stored, stored["graphKey"]), language)
    return {"key": stored["_key"], "rev": stored["_rev"], "words": words}


def own_words(node: Node, language: str | None) -> dict[str, Any]:
    """Returns the stored form of a node's words and references; the server adds the digest `of`.

    `language` is that of its graph.
    """
    text = node_text(node, language=language)
    names = tokenize(f"{node.key} {text.name} {node.type}")
    rest = tokenize(f"{text.data} {text.process}")
    content = Counter([*names, *rest])
    by_name = Counter(names)
    return {
        "content": dict(content),
        "name": dict(by_name),
        "words": list(content),
        "nameWords": list(by_name),
        "contentLength": len(names) + len(rest),
        "nameLength": len(names),
        "uses": entries_of(node),
        # A node without a name of its own has the name of its type, unless its key says it already.
        "unnamed": None if label_in(node.data) else letters(node.key),
    }


Keyed = Graph | Node | Edge | NodeTypeConfig
D = TypeVar("D", Graph, Node, Edge, NodeTypeConfig)
Stored = Mapping[str, Any]

MAX_BYTES = 254
_PLAIN = re.compile(r"[A-Za-z0-9_\-.@()+,=;$!*':%]+")
_ENCODED = re.compile(r"%[0-9A-F]{2}")
_REFUSED = re.compile(r"[^A-Za-z0-9_\-.@()+,=;$!*':]")
_SERVERS = ("_id", "_rev", "_key", "_from", "_to", LOCAL_KEY, *layout.HIDDEN)
_COLLECTIONS = {Graph: "graphs", Node: "nodes", Edge: "edges", NodeTypeConfig: "node_configs"}
"""The name of a document's collection in errors."""


def is_plain(key: str) -> bool:
    """Returns True if the server accepts the key as it is and it does not look encoded."""
    return len(key) <= MAX_BYTES and bool(_PLAIN.fullmatch(key)) and not _ENCODED.search(key)


def encoded(key: str) -> str:
    """Returns a key that the server accepts: a plain one unchanged, two keys never the same."""
    if is_plain(key):
        return key
    written = _REFUSED.sub(lambda found: "".join(f"%{byte:02X}" for byte in _bytes(found[0])), key)
    if len(written) <= MAX_BYTES:
        return written
    # no other key is written with two %
    return "%%" + hashlib.sha256(_bytes(key)).hexdigest().upper()


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def document_key(graph_key: str, local_key: str) -> str:
    """Returns the `_key` of a node or an edge of a graph."""
    if is_plain(graph_key) and is_plain(local_key):
        return encoded(f"{graph_key}-{local_key}")
    # A zero byte is in no key: graph and local key cannot run into each other.
    return encoded(f"{graph_key}\0{local_key}")


def node_id(graph_key: str, local_key: str) -> str:
    return f"{NODES}/{document_key(graph_key, local_key)}"


def vectors_key(graph_key: str) -> str:
    """Returns the `_key` of the mark of a graph's vectors, among the facts about the database."""
    return encoded(f"vectors:{graph_key}")


def config_keys(workspace: str, key: str) -> tuple[str, str]:
    """Returns the two possible keys of a workspace's type: plain, or with the workspace."""
    return encoded(key), encoded(f"{workspace}\0{key}")


def local_key(document: Stored, graph_key: str | None = None) -> str:
    """Returns our key of a stored document; with `graph_key`, of a node or an edge of it."""
    return _local(document.get(LOCAL_KEY), str(document["_key"]), graph_key)


def end_key(document: Stored, end: str, graph_key: str) -> str:
    """Returns the local key of the node at an end (`_from`, `_to`) of a stored edge."""
    kept = document.get("source" if end == "_from" else "target")
    return _local(kept, str(document[end]).partition("/")[2], graph_key)


def read_link(edge: Stored, graph_key: str) -> Link:
    """Returns the local keys of the ends of a stored edge of a graph."""
    return Link(end_key(edge, "_from", graph_key), end_key(edge, "_to", graph_key))


def read_links(rows: Sequence[Sequence[Any]], graph_key: str) -> list[Link]:
    """Returns the links of rows of `[_from, _to, source, target, …]`."""
    fields = ("_from", "_to", "source", "target")
    return [read_link(dict(zip(fields, row, strict=False)), graph_key) for row in rows]


def _local(kept: Any, key: str, graph_key: str | None) -> str:
    if isinstance(kept, str):
        return kept
    return key if graph_key is None else key[len(graph_key) + 1 :]


def graph_document(graph: Graph) -> dict[str, Any]:
    """Returns the stored form of a graph. Raises: BadDocument."""
    return _stored(graph, encoded(graph.key))


def config_row(workspace: str, config: NodeTypeConfig) -> dict[str, Any]:
    """Returns the stored form of a node type and its possible keys. Raises: BadDocument."""
    plain, own = config_keys(workspace, config.key)
    return {"plain": plain, "own": own, "key": config.key, "document": _stored(config, plain)}


def node_document(node: Node, language: str | None) -> dict[str, Any]:
    """Returns the stored form of a node, with its words. Raises: BadDocument.

    `language` is that of its graph.
    """
    stored = _stored(node, document_key(node.graph_key, node.key), node.graph_key)
    return {**stored, layout.TEXT: own_words(node, language)}


def edge_document(edge: Edge) -> dict[str, Any]:
    """Returns the stored form of an edge, with the ids of its ends. Raises: BadDocument."""
    stored = _stored(edge, document_key(edge.graph_key, edge.key), edge.graph_key)
    for name, end, local in (("source", "_from", edge.source), ("target", "_to", edge.target)):
        stored[end] = node_id(edge.graph_key, local)
        # A key that follows from the id is not written twice; Nodius does not write it either.
        if end_key({end: stored[end]}, end, edge.graph_key) == local:
            stored.pop(name, None)
    return stored


def _stored(document: Keyed, key: str, graph_key: str | None = None) -> dict[str, Any]:
    """Returns the document as JSON, with its local key if that does not follow from `key`."""
    plain = orjson.loads(encode_document(document, _COLLECTIONS[type(document)], document.key))
    is_plain_key = local_key({"_key": key}, graph_key) == document.key
    return (
        {**plain, "_key": key} if is_plain_key else {**plain, "_key": key, LOCAL_KEY: document.key}
    )


def read_document(kind: type[D], stored: Stored, graph_key: str | None = None) -> D:
    """Returns a stored document; a node or an edge is that of a graph. Raises: BadDocument."""
    ours = {name: value for name, value in stored.items() if name not in _SERVERS}
    if kind is Edge and graph_key is not None:
        ours |= {
            "source": end_key(stored, "_from", graph_key),
            "target": end_key(stored, "_to", graph_key),
        }
    return parse_document(kind, {"_key": local_key(stored, graph_key), **ours}, _COLLECTIONS[kind])


def read_documents(kind: type[D], rows: Sequence[Stored], graph_key: str) -> list[D]:
    """Returns the nodes or edges of a graph in key order. Raises: BadDocument."""
    return sorted(
        (read_document(kind, row, graph_key) for row in rows), key=lambda document: document.key
    )


def document_keys(graph_key: str, keys: Sequence[str]) -> list[str]:
    """Returns the `_key`s of nodes or edges, each once."""
    return [document_key(graph_key, key) for key in dict.fromkeys(keys)]


def node_ids(graph_key: str, keys: Sequence[str]) -> list[str]:
    """Returns the ids of nodes, each once."""
    return [node_id(graph_key, key) for key in dict.fromkeys(keys)]


def vector_fields(graph_key: str, vector: NodeVector, indexed_dim: int | None) -> dict[str, Any]:
    """Returns a node's `_key` and the fields of its vectors; null removes an earlier vector.

    `indexed_dim` is the length in the server's vector index, None if it has none.
    """
    fits = indexed_dim is None or vector.content.size == indexed_dim
    content = vector.content.tolist()
    name = None if vector.name is None else vector.name.tolist()
    return {
        "_key": document_key(graph_key, vector.key),
        layout.EMBEDDING: content if fits else None,
        layout.NAME_EMBEDDING: name if fits else None,
        layout.OTHER_EMBEDDING: None if fits else content,
        layout.OTHER_NAME_EMBEDDING: None if fits else name,
        layout.EMBEDDING_MODEL: vector.model,
        layout.EMBEDDING_HASH: vector.hash,
    }


def adopted_fields(graph_key: str, vector: NodeVector, indexed_dim: int | None) -> dict[str, Any]:
    """Returns the same fields without the vector of the content, which another program wrote."""
    contents = (layout.EMBEDDING, layout.OTHER_EMBEDDING)
    fields = vector_fields(graph_key, vector, indexed_dim).items()
    return {name: value for name, value in fields if name not in contents}


def read_vector(row: Stored, key: str) -> NodeVector | None:
    """Returns a stored vector; None if it is not one, or if another program named no model."""
    content, name = (read_part(row.get(part)) for part in ("content", "name"))
    if content is None or row["model"] is None:
        return None
    return NodeVector(
        key=key, model=row["model"], hash=row.get("hash") or "", content=content, name=name
    )


def read_part(numbers: Any) -> Vector | None:
    """Returns one stored vector, None if the value is not a vector."""
    if not isinstance(numbers, list) or not numbers:
        return None
    try:
        return np.array(numbers, dtype=np.float32)
    except (TypeError, ValueError):
        return None
