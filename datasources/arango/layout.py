"""The schema of the database: collections, indexes, the View, and a user with minimal rights.

Graphs, nodes, edges, node types, threads and history are shared with Nodius; the rest belongs to
this service.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datasources.record_kinds import RECORD_INDEXES

GRAPHS, NODES, EDGES = "nodius_graphs", "nodius_nodes", "nodius_edges"
CONFIGS, THREADS, RECORDS = "nodius_node_config", "nodius_ai_threads", "nodius_ai_records"
MARKS, META, VIEW = "nodius_ai_intents", "nodius_ai_meta", "nodius_ai_nodes_view"
STEPS = "nodius_ai_steps"

_OWN = (
    "approval",
    "lease",
    "session",
    "automation",
    "member",
    "agent",
    "call",
    "deleted_graph",
    "trace",
)
RECORD_COLLECTIONS: Mapping[str, str] = {
    "thread": "threads",
    "history": "history",
    "audit": "audit",
    "journal": "journal",
    "delivery": "deliveries",
    **{kind: f"{kind}s" for kind in _OWN},
}
"""The collection of each kind of record. Every other kind is stored in `records`."""

COLLECTIONS: Mapping[str, str] = {
    "graphs": GRAPHS,
    "nodes": NODES,
    "edges": EDGES,
    "configs": CONFIGS,
    **{name: f"nodius_ai_{name}" for name in RECORD_COLLECTIONS.values()},
    "threads": THREADS,
    "history": "nodius_graphs_history",
    "records": RECORDS,
    "marks": MARKS,
    "meta": META,
    "steps": STEPS,
    "view": VIEW,
}
"""Collections by their bind parameter in statements (`@@nodes`)."""


def collection_of(kind: str) -> str:
    """Returns the name of the collection of a kind of record."""
    return COLLECTIONS[RECORD_COLLECTIONS.get(kind, "records")]


EMBEDDING, NAME_EMBEDDING = "embedding", "nameEmbedding"
VECTOR_FIELDS = (EMBEDDING, NAME_EMBEDDING)
OTHER_EMBEDDING, OTHER_NAME_EMBEDDING = "otherEmbedding", "otherNameEmbedding"
"""Fields for vectors of another length than that of the vector index, which would reject them."""

EMBEDDING_MODEL, EMBEDDING_HASH = "embeddingModel", "embeddingHash"

TEXT = "nodiusText"
LOCAL_KEY = "localKey"
HIDDEN = (
    *VECTOR_FIELDS,
    OTHER_EMBEDDING,
    OTHER_NAME_EMBEDDING,
    EMBEDDING_MODEL,
    EMBEDDING_HASH,
    TEXT,
)
"""Fields of a stored node that are removed when it is read. `localKey` is kept for its key."""


Body = dict[str, Any]

ALL_COLLECTIONS = tuple(name for name in COLLECTIONS.values() if name != VIEW)


def all_indexes() -> dict[str, list[Body]]:
    """Returns the definitions of indexes by collection. They are always the same, so that the
    server does not create duplicates.
    """
    found = {
        GRAPHS: [_index("workspace", "workspace")],
        NODES: [
            _index("key", "graphKey", "localKey", "_key"),
            _index("type", "graphKey", "type"),
            _index("model", "graphKey", "embeddingModel"),
            _index("uses", "graphKey", f"{TEXT}.uses[*]"),
        ],
        EDGES: [
            _index("key", "graphKey", "localKey", "_key"),
            _index("graph", "graphKey", "sheet"),
        ],
        CONFIGS: [_index("config", "workspace")],
        RECORDS: [_index("kind", "workspace", "rag.kind", "rag.key")],
        MARKS: [_expiry("until")],
        STEPS: [_index("change", "change"), _expiry("until")],
    }
    for kind in RECORD_COLLECTIONS:
        # `rag.key` ends each, so that the order of a query is read from the index alone.
        of_fields = [
            _index(field, "workspace", *field.split("."), "rag.key")
            for field in RECORD_INDEXES[kind]
        ]
        found[collection_of(kind)] = [_index("key", "workspace", "rag.key"), *of_fields]
    found[collection_of("lease")].append(_expiry("rag.until"))
    return found


def _index(name: str, *fields: str) -> Body:
    return {
        "type": "persistent",
        "name": f"ix_rag_{name}",
        "fields": list(fields),
        "inBackground": True,
    }


def _expiry(field: str) -> Body:
    return {"type": "ttl", "name": "ttl_rag", "fields": [field], "expireAfter": 0}


def view_properties() -> Body:
    """Returns the View for searching large graphs. Its analyzer leaves the stored words
    unchanged.
    """
    exact = {"analyzers": ["identity"]}
    words = {"fields": {"words": exact, "nameWords": exact}}
    fields = {"graphKey": exact, "type": exact, TEXT: words}
    return {
        "links": {NODES: {"includeAllFields": False, "fields": fields}},
        "commitIntervalMsec": 1000,
        "optimizeTopK": ["BM25(@doc) DESC"],
    }


def vector_index(field: str, dimension: int) -> Body:
    """Returns a vector index for one field and length. The server chooses the number of lists.

    Source: ArangoDB documentation, "Vector indexes" (`nLists` optional from 3.12.10,
    `storedValues` from 3.12.7).
    """
    return {
        "type": "vector",
        "name": f"vec_rag_{field}",
        "fields": [field],
        "sparse": True,
        "inBackground": True,
        # One graph is searched without reading documents.
        "storedValues": ["graphKey", EMBEDDING_MODEL],
        "params": {"metric": "cosine", "dimension": dimension, "defaultNProbe": 20},
    }


def user_script(*, user: str, database: str, host: str) -> str:
    """Returns the `arangosh` script that creates a user with access to our collections only.

    An administrator runs it once. Creating collections and indexes (`nodius db init`) still needs
    an administrator. The password is read from the environment and never written.

    Source: ArangoDB 3.12 documentation, "Managing Users": a collection level counts even where the
    database level is lower, and `*` stands for every collection without a level of its own;
    "Managing Users in the ArangoDB Shell": what `@arangodb/users` has.
    """
    script = Path(__file__).with_name("nodius-user.js").read_text(encoding="utf-8")
    values = {
        "__ENDPOINT__": host.replace("http://", "tcp://").replace("https://", "ssl://"),
        "__USER__": json.dumps(user),
        "__DATABASE__": json.dumps(database),
        "__COLLECTIONS__": json.dumps(sorted(ALL_COLLECTIONS), indent=2),
    }
    return re.sub("|".join(values), lambda found: values[found[0]], script)
