"""What a set-up database has: collections, indexes, the View and the named graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from datasources.arango.names import (
    COLLECTIONS,
    CONFIGS,
    EDGES,
    EMBEDDING,
    GRAPHS,
    NAME_EMBEDDING,
    NODES,
    TEXT,
    VIEW,
)
from datasources.arango.record_documents import record_indexes

Body = dict[str, Any]

ALL_COLLECTIONS = tuple(name for name in COLLECTIONS.values() if name != VIEW)


def _index(name: str, *fields: str) -> Body:
    return {"type": "persistent", "name": name, "fields": list(fields), "inBackground": True}


def graph_indexes() -> Mapping[str, Sequence[Body]]:
    """Return the indexes of what Nodius writes. The same body each time: the server then makes no second."""
    return {
        GRAPHS: [_index("ix_rag_workspace", "workspace")],
        NODES: [
            _index("ix_rag_key", "graphKey", "localKey", "_key"),
            _index("ix_rag_type", "graphKey", "type"),
            _index("ix_rag_model", "graphKey", "embeddingModel"),
        ],
        EDGES: [
            _index("ix_rag_key", "graphKey", "localKey", "_key"),
            _index("ix_rag_graph", "graphKey", "sheet"),
        ],
        CONFIGS: [_index("ix_rag_config", "workspace")],
    }


def all_indexes() -> dict[str, list[Body]]:
    found = {name: list(bodies) for name, bodies in graph_indexes().items()}
    for name, bodies in record_indexes().items():
        found.setdefault(name, []).extend(bodies)
    return found


def view_properties() -> Body:
    """Return the View for searching many nodes; words are stored as they are compared."""
    exact = {"analyzers": ["identity"]}
    words = {"fields": {"words": exact, "nameWords": exact}}
    fields = {"graphKey": exact, "type": exact, TEXT: words}
    return {
        "links": {NODES: {"includeAllFields": False, "fields": fields}},
        "commitIntervalMsec": 1000,
        "optimizeTopK": ["BM25(@doc) DESC"],
    }


def is_index_like(stored: Body | None, wanted: Body) -> bool:
    """Say whether a stored index does what a wanted one would."""
    if stored is None:
        return False
    return stored["type"] == wanted["type"] and list(stored["fields"]) == wanted["fields"]


def is_link_like(stored: Body | None, wanted: Body, analyzers: Sequence[str] = ("identity",)) -> bool:
    """Say whether a View's link has the wanted fields; a field without analyzers has those around it."""
    if stored is None:
        return False
    own = stored.get("analyzers") or analyzers
    if "analyzers" in wanted and list(own) != wanted["analyzers"]:
        return False
    held = stored.get("fields", {})
    fields: Body = wanted.get("fields", {})
    return all(is_link_like(held.get(name), field, own) for name, field in fields.items())


def vector_index(field: str, dimension: int) -> Body:
    """Return a vector index for one field and length; the server chooses the number of lists.

    Source: ArangoDB documentation, "Vector indexes" (`nLists` optional from 3.12.10).
    """
    return {
        "type": "vector",
        "name": f"vec_rag_{field}",
        "fields": [field],
        "sparse": True,
        "inBackground": True,
        "params": {"metric": "cosine", "dimension": dimension, "defaultNProbe": 20},
    }


VECTOR_FIELDS = (EMBEDDING, NAME_EMBEDDING)
