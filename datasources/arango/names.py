"""Names of what is stored in ArangoDB: collections, the View, the named graph, fields of ours.

Nodius writes graphs, nodes, edges, node types, threads and history; the rest is this service's.
"""

from __future__ import annotations

from collections.abc import Mapping

GRAPHS, NODES, EDGES = "nodius_graphs", "nodius_nodes", "nodius_edges"
CONFIGS, THREADS, RECORDS = "nodius_node_config", "nodius_ai_threads", "nodius_ai_records"
MARKS, META, VIEW = "nodius_ai_intents", "nodius_ai_meta", "nodius_ai_nodes_view"
NAMED_GRAPH = "nodius_ai_graph"

_OWN = ("approval", "lease", "session", "automation", "member", "agent", "call", "deleted_graph", "trace")
RECORD_COLLECTIONS: Mapping[str, str] = {
    "thread": "threads",
    "history": "history",
    "audit": "audit",
    "journal": "journal",
    "delivery": "deliveries",
    **{kind: f"{kind}s" for kind in _OWN},
}
"""Where a kind of record is kept; every other kind is in `records`."""

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
    "view": VIEW,
}
"""What statements call them (`@@nodes`), and their names."""

EMBEDDING, NAME_EMBEDDING = "embedding", "nameEmbedding"
OTHER_EMBEDDING, OTHER_NAME_EMBEDDING = "otherEmbedding", "otherNameEmbedding"
"""Where a vector is kept whose length is not that of the vector index, which would refuse it."""

EMBEDDING_MODEL, EMBEDDING_HASH = "embeddingModel", "embeddingHash"

TEXT = "nodiusText"
LOCAL_KEY = "localKey"
HIDDEN = (
    EMBEDDING,
    NAME_EMBEDDING,
    OTHER_EMBEDDING,
    OTHER_NAME_EMBEDDING,
    EMBEDDING_MODEL,
    EMBEDDING_HASH,
    TEXT,
)
"""Fields of a node that no reader of documents gets to see; `localKey` is needed to read its key."""
