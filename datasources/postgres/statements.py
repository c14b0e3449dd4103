"""The SQL of reading and writing. Values are bound, never written into the text.

Every statement names the workspace, or rows that were found by it; row-level security holds for one
that forgot to (`schema`). A list is bound as an array, so one statement serves any number.
"""

from __future__ import annotations

# A transaction

# The server ends the transaction of a client that vanished without a word after half a minute, and
# of one that is stopped after five: it may hold the lock of a graph.
SESSION = """
SELECT set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '4', false),
    set_config('idle_in_transaction_session_timeout', '5min', false)"""
# Tells a server from another one, and from itself before a restart.
SERVER_START = "SELECT pg_postmaster_start_time()::text"
BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
COMMIT = "COMMIT"
# Finds the tables, and the operators of pgvector in whichever schema it is.
SCOPE = """
SELECT set_config('nodius.workspace', %(workspace)s, true),
    set_config('nodius.all_workspaces', %(everything)s, true),
    set_config('search_path', concat_ws(', ', 'nodius', (SELECT quote_ident(nspname)
        FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'vector' AND nspname <> 'nodius')), true),
    set_config('statement_timeout', %(timeout)s, true),
    set_config('lock_timeout', %(lock)s, true)"""
WRITER_PUT = """
INSERT INTO nodius.writers (id, number) VALUES (%(id)s, %(number)s)
ON CONFLICT (id) DO UPDATE SET number = excluded.number, seen = now()"""
# Waits until a transaction of that writer that has not ended yet has ended, also if it is the one
# that inserts the row.
WRITER_LOOK_UP = """
INSERT INTO nodius.writers (id, number) VALUES (%(id)s, 0)
ON CONFLICT (id) DO UPDATE SET seen = now() RETURNING number"""
WRITERS_FORGET = "DELETE FROM writers WHERE seen < now() - interval '7 days'"
# Tells of changes that are committed already: losing it in a crash of the server costs nothing.
NOTIFY = """
SELECT pg_notify('nodius', payload), set_config('synchronous_commit', 'off', true)
FROM unnest(%(payloads)s::text[]) payload"""

# Graphs

# The last one is whether there are columns of pgvector: it may be added and removed at any time.
_GRAPH_COLUMNS = """id, revision, version, vectors_version, removed_from, nodes, edges,
    content_words, name_words, body, EXISTS (SELECT FROM pg_attribute
        WHERE attrelid = 'nodius.vectors'::regclass AND attname = 'name_half' AND NOT attisdropped)"""
_GRAPH = "FROM graphs WHERE key = %(graph)s AND workspace = %(workspace)s"
# With the version of the types that the workspace sees: most questions read them too.
GRAPH_ROW = f"""
SELECT {_GRAPH_COLUMNS}, (SELECT sum(version)::bigint FROM type_versions
    WHERE workspace IN (%(workspace)s, 'root')) {_GRAPH}"""
GRAPH_LOCK = f"SELECT {_GRAPH_COLUMNS} {_GRAPH} FOR UPDATE"
GRAPH_LIST = "SELECT body FROM graphs WHERE workspace = %(workspace)s ORDER BY key"
GRAPH_INSERT = """
INSERT INTO graphs (workspace, key, body) VALUES (%(workspace)s, %(graph)s, %(body)s)
ON CONFLICT (key) DO NOTHING RETURNING id"""
GRAPH_UPDATE = """
UPDATE graphs SET revision = %(revision)s, version = version + 1,
    vectors_version = CASE WHEN %(vectors)s THEN version + 1 ELSE vectors_version END,
    nodes = nodes + %(nodes)s, edges = edges + %(edges)s, content_words = content_words + %(content_words)s,
    name_words = name_words + %(name_words)s, body = %(body)s,
    removed_from = greatest(removed_from, %(removed_from)s)
WHERE id = %(id)s"""
GRAPH_VECTORS_CHANGED = """
UPDATE graphs SET version = version + 1, vectors_version = version + 1 WHERE id = %(id)s"""
GRAPH_TOUCH = """
UPDATE graphs SET version = version + 1, content_words = content_words + %(content_words)s,
    name_words = name_words + %(name_words)s WHERE id = %(id)s"""
GRAPH_LOCK_BY_ID = f"SELECT {_GRAPH_COLUMNS} FROM graphs WHERE id = %(id)s FOR UPDATE"
GRAPHS_WITH_TYPES = """
SELECT id FROM graphs WHERE workspace = %(workspace)s AND EXISTS (
    SELECT FROM nodes WHERE graph = graphs.id AND type = ANY(%(types)s::text[]))
ORDER BY id"""
# Deleting a large graph takes longer than a statement usually may.
TAKES_LONG = "SELECT set_config('statement_timeout', '1800000', true)"
GRAPHS_AND_TYPES = """
SELECT graphs.id, array_agg(DISTINCT nodes.type) FROM graphs JOIN nodes ON nodes.graph = graphs.id
WHERE graphs.workspace = %(workspace)s GROUP BY graphs.id ORDER BY graphs.id"""
_PARTS = ("removed", "vectors", "edges", "nodes", "term_counts")
GRAPH_DELETES = (
    *(f"DELETE FROM {table} WHERE graph = %(id)s" for table in _PARTS),
    "DELETE FROM graphs WHERE id = %(id)s",
)
WORKSPACES = "SELECT DISTINCT workspace FROM graphs ORDER BY workspace"
RECORD_WORKSPACES = (
    "SELECT DISTINCT workspace FROM records WHERE kind = %(kind)s ORDER BY workspace"
)
TOTALS = """
SELECT (SELECT count(*) FROM graphs), (SELECT coalesce(sum(nodes), 0)::bigint FROM graphs),
    (SELECT coalesce(sum(edges), 0)::bigint FROM graphs),
    pg_database_size(current_database())"""

# Documents. `:graph` is the id of a graph that was found in the workspace.

_PAGE = """
SELECT body FROM {} WHERE graph = %(id)s AND key > %(after)s
    AND (%(sheet)s::text IS NULL OR sheet = %(sheet)s) ORDER BY key LIMIT %(limit)s"""
NODES = _PAGE.format("nodes")
EDGES = _PAGE.format("edges")
_BY_KEY = """
SELECT d.body FROM unnest(%(keys)s::text[]) WITH ORDINALITY wanted (key, place)
JOIN {} d ON d.graph = %(id)s AND d.key = wanted.key COLLATE "C" ORDER BY place"""
NODES_BY_KEY = _BY_KEY.format("nodes")
EDGES_BY_KEY = _BY_KEY.format("edges")
NODES_SINCE = (
    "SELECT key, body FROM nodes WHERE graph = %(id)s AND version > %(version)s ORDER BY key"
)
EDGES_SINCE = """
SELECT key, source, target, body FROM edges
WHERE graph = %(id)s AND version > %(version)s ORDER BY key"""
WORDS_SINCE = """
SELECT key, name_words, other_words FROM nodes
WHERE graph = %(id)s AND version > %(version)s ORDER BY key"""
VECTORS_SINCE = """
SELECT key, CASE WHEN model = %(model)s AND dim = %(dim)s THEN {} END FROM vectors
WHERE graph = %(id)s AND version > %(version)s ORDER BY key"""
REMOVED_SINCE = """
SELECT kind, key FROM removed WHERE graph = %(id)s AND version > %(version)s"""
_AT = """FROM edges
WHERE graph = %(id)s AND (source = ANY(%(keys)s::text[]) OR target = ANY(%(keys)s::text[]))
ORDER BY key LIMIT %(limit)s"""
EDGES_AT = f"SELECT body {_AT}"
LINKS_AT = f"SELECT source, target {_AT}"
TYPED_LINKS_AT = f"SELECT source, target, body {_AT}"
# The nodes of at most so many edges, those of the fewest first. No more edges than decide it are
# counted: a node may have a million.
DEGREES = """
SELECT wanted.key FROM unnest(%(keys)s::text[]) WITH ORDINALITY wanted (key, place),
LATERAL (SELECT count(*) AS edges FROM (
    (SELECT key FROM edges WHERE graph = %(id)s AND source = wanted.key COLLATE "C"
        LIMIT %(degree)s::bigint + 1)
    UNION
    (SELECT key FROM edges WHERE graph = %(id)s AND target = wanted.key COLLATE "C"
        LIMIT %(degree)s::bigint + 1)
) found) counted
WHERE counted.edges <= %(degree)s::bigint
ORDER BY counted.edges, wanted.place LIMIT %(limit)s"""
_OUT = "SELECT target AS key FROM edges WHERE graph = %(id)s AND source = ANY(%(keys)s::text[])"
_IN = "SELECT source AS key FROM edges WHERE graph = %(id)s AND target = ANY(%(keys)s::text[])"
_NEXT = "SELECT key FROM ({}) reached ORDER BY key LIMIT %(limit)s"
NEXT = {
    "out": _NEXT.format(_OUT.replace("SELECT", "SELECT DISTINCT", 1)),
    "in": _NEXT.format(_IN.replace("SELECT", "SELECT DISTINCT", 1)),
    "any": _NEXT.format(f"{_OUT} UNION {_IN}"),
}
EDGES_INSIDE = """
SELECT body FROM edges WHERE graph = %(id)s AND source = ANY(%(keys)s::text[])
    AND target = ANY(%(keys)s::text[]) ORDER BY key"""
TYPE_COUNTS = "SELECT type, count(*) FROM nodes WHERE graph = %(id)s GROUP BY type"
VECTOR_COUNTS = "SELECT model, count(*) FROM vectors WHERE graph = %(id)s GROUP BY model"
VECTOR_INFO = """
SELECT key, model, hash FROM vectors WHERE graph = %(id)s AND key = ANY(%(keys)s::text[])"""
VECTORS_BY_KEY = """
SELECT key, model, hash, content, name FROM vectors
WHERE graph = %(id)s AND key = ANY(%(keys)s::text[])"""

# Types

CONFIGS = """
SELECT workspace, body FROM configs WHERE workspace IN (%(workspace)s, 'root')"""
TYPES_VERSION = """
SELECT sum(version)::bigint FROM type_versions WHERE workspace IN (%(workspace)s, 'root')"""
OWN_CONFIGS = "SELECT body FROM configs WHERE workspace = %(workspace)s ORDER BY key"
CONFIG_KEYS = "SELECT key FROM configs WHERE workspace = %(workspace)s"
CONFIG_PUT = """
INSERT INTO configs (workspace, key, type, body)
VALUES (%(workspace)s, %(key)s, %(type)s, %(body)s)
ON CONFLICT (workspace, key) DO UPDATE SET type = excluded.type, body = excluded.body"""
CONFIGS_DELETE = """
DELETE FROM configs WHERE workspace = %(workspace)s AND key = ANY(%(keys)s::text[])"""
TYPES_CHANGED = """
INSERT INTO type_versions (workspace, version) VALUES (%(workspace)s, 1)
ON CONFLICT (workspace) DO UPDATE SET version = type_versions.version + 1"""
# A lock that writers of nodes share, and that a change of types, which rewords nodes, has alone.
TYPES_SHARE = "SELECT pg_advisory_xact_lock_shared(7236851, 1)"
TYPES_LOCK = "SELECT pg_advisory_xact_lock(7236851, 1)"

# Looking up what a mutation names

NODES_NAMED = """
SELECT key, id, name_words, other_words FROM nodes
WHERE graph = (SELECT id FROM graphs WHERE key = %(graph)s AND workspace = %(workspace)s)
    AND key = ANY(%(keys)s::text[])"""
EDGES_NAMED = """
SELECT key FROM edges
WHERE graph = (SELECT id FROM graphs WHERE key = %(graph)s AND workspace = %(workspace)s)
    AND key = ANY(%(keys)s::text[])"""
NODES_ON_SHEETS = """
SELECT key FROM nodes WHERE graph = %(id)s AND sheet = ANY(%(sheets)s::text[])"""
EDGES_ON_SHEETS = """
SELECT key, source, target FROM edges WHERE graph = %(id)s AND sheet = ANY(%(sheets)s::text[])"""

# Writing a mutation

EDGES_DELETE = """
DELETE FROM edges WHERE graph = %(id)s AND key = ANY(%(keys)s::text[]) RETURNING key"""
EDGES_OF_DELETE = """
DELETE FROM edges WHERE graph = %(id)s
    AND (source = ANY(%(keys)s::text[]) OR target = ANY(%(keys)s::text[])) RETURNING key"""
NODES_DELETE = """
DELETE FROM nodes WHERE graph = %(id)s AND key = ANY(%(keys)s::text[])"""
VECTORS_DELETE = """
DELETE FROM vectors WHERE graph = %(id)s AND key = ANY(%(keys)s::text[])"""
REMOVED_PUT = """
INSERT INTO removed (workspace, graph, version, kind, key)
SELECT %(workspace)s, %(id)s, %(version)s, %(kind)s, key FROM unnest(%(keys)s::text[]) key
ON CONFLICT DO NOTHING"""
REMOVED_FORGET = "DELETE FROM removed WHERE graph = %(id)s AND version <= %(version)s"
NODES_PUT = """
INSERT INTO nodes (workspace, graph, key, sheet, type, version, name_words, other_words, body)
SELECT %(workspace)s, %(id)s, key, sheet, type, %(version)s, name_words, other_words, body::json
FROM unnest(%(keys)s::text[], %(sheets)s::text[], %(types)s::text[], %(name_words)s::text[],
    %(other_words)s::text[], %(bodies)s::text[])
    AS put (key, sheet, type, name_words, other_words, body)
ON CONFLICT (graph, key) DO UPDATE SET sheet = excluded.sheet, type = excluded.type,
    version = excluded.version, name_words = excluded.name_words,
    other_words = excluded.other_words, body = excluded.body"""
WORDS_UPDATE = """
UPDATE nodes SET version = %(version)s, name_words = put.name_words, other_words = put.other_words
FROM unnest(%(keys)s::text[], %(name_words)s::text[], %(other_words)s::text[])
    AS put (key, name_words, other_words)
WHERE nodes.graph = %(id)s AND nodes.key = put.key COLLATE "C" """
TERMS_PUT = """
INSERT INTO node_terms (node, terms)
SELECT nodes.id, put.terms::bigint[]
FROM unnest(%(keys)s::text[], %(terms)s::text[]) AS put (key, terms)
JOIN nodes ON nodes.graph = %(id)s AND nodes.key = put.key COLLATE "C"
ON CONFLICT (node) DO UPDATE SET terms = excluded.terms"""
TERM_COUNTS_ADD = """
INSERT INTO term_counts (workspace, term, graph, nodes)
SELECT %(workspace)s, term, %(id)s, nodes
FROM unnest(%(terms)s::bigint[], %(counts)s::bigint[]) AS put (term, nodes)
ON CONFLICT (workspace, term, graph) DO UPDATE SET nodes = term_counts.nodes + excluded.nodes"""
TERM_COUNTS_CLEAN = """
DELETE FROM term_counts WHERE workspace = %(workspace)s AND graph = %(id)s
    AND term = ANY(%(terms)s::bigint[]) AND nodes <= 0"""
USES_DELETE = """
DELETE FROM uses USING nodes WHERE uses.node = nodes.id AND nodes.graph = %(id)s
    AND nodes.key = ANY(%(keys)s::text[]) AND uses.workspace = %(workspace)s"""
USES_PUT = """
INSERT INTO uses (workspace, entry, node)
SELECT %(workspace)s, put.entry, nodes.id
FROM unnest(%(keys)s::text[], %(entries)s::text[]) AS put (key, entry)
JOIN nodes ON nodes.graph = %(id)s AND nodes.key = put.key COLLATE "C"
ON CONFLICT DO NOTHING"""
EDGES_PUT = """
INSERT INTO edges (workspace, graph, key, sheet, source, target, version, body)
SELECT %(workspace)s, %(id)s, key, sheet, source, target, %(version)s, body::json
FROM unnest(%(keys)s::text[], %(sheets)s::text[], %(sources)s::text[], %(targets)s::text[],
    %(bodies)s::text[]) AS put (key, sheet, source, target, body)
ON CONFLICT (graph, key) DO UPDATE SET sheet = excluded.sheet, source = excluded.source,
    target = excluded.target, version = excluded.version, body = excluded.body"""
VECTORS_PUT = """
INSERT INTO vectors (workspace, graph, key, model, hash, dim, version, content, name{columns})
SELECT %(workspace)s, %(id)s, put.key, model, hash, dim, %(version)s, content, put.name{values}
FROM unnest(%(keys)s::text[], %(models)s::text[], %(hashes)s::text[], %(dims)s::integer[],
    %(contents)s::bytea[], %(names)s::bytea[]{arrays})
    AS put (key, model, hash, dim, content, name{fields})
JOIN nodes ON nodes.graph = %(id)s AND nodes.key = put.key COLLATE "C"
ON CONFLICT (graph, key) DO UPDATE SET model = excluded.model, hash = excluded.hash,
    dim = excluded.dim, version = excluded.version, content = excluded.content,
    name = excluded.name{updates}
RETURNING key"""
NODES_OF_TYPES = """
SELECT key, name_words, other_words, body FROM nodes
WHERE graph = %(id)s AND type = ANY(%(types)s::text[]) AND key > %(after)s
ORDER BY key LIMIT %(limit)s"""

# Search in a large graph, and in all graphs of a workspace

# The rarest of the terms, up to a number of nodes; at least one.
_CHOSEN = """
counted AS (
    SELECT term, graph, nodes, sum(nodes) OVER (ORDER BY nodes, term, graph) AS total
    FROM term_counts WHERE workspace = %(workspace)s AND term = ANY(%(terms)s::bigint[])
        AND graph = ANY(%(graphs)s::bigint[])
),
chosen AS (SELECT term # graph AS term FROM counted WHERE total <= %(most)s OR total = nodes),
"""
# The nodes with the rarest terms, and those with all of them; of these the ones whose terms weigh
# most by their rarity.
CANDIDATES = f"""
WITH {_CHOSEN}
found AS (
    (SELECT node FROM node_terms WHERE terms && ARRAY(SELECT term FROM chosen) LIMIT %(most)s)
    UNION
    (SELECT node FROM node_terms WHERE %(all)s AND EXISTS (SELECT FROM counted)
            AND terms @> ARRAY(SELECT term # graph FROM counted)
        LIMIT %(most)s)
),
best AS (
    SELECT node_terms.node, (SELECT sum(ln(1 + %(nodes)s::float8 / counted.nodes)) FROM counted
        WHERE term # graph = ANY(node_terms.terms)) AS weight
    FROM node_terms WHERE node = ANY(ARRAY(SELECT node FROM found))
    ORDER BY weight DESC LIMIT %(scored)s
)
SELECT nodes.graph, nodes.key, nodes.name_words, nodes.other_words
FROM nodes WHERE nodes.id = ANY(ARRAY(SELECT node FROM best))"""
TERM_COUNTS = """
SELECT term, sum(nodes)::bigint FROM term_counts
WHERE workspace = %(workspace)s AND term = ANY(%(terms)s::bigint[])
    AND graph = ANY(%(graphs)s::bigint[]) GROUP BY term"""
NEAREST = """
SELECT key, {vector} FROM vectors
WHERE graph = %(id)s AND model = %(model)s AND dim = %(dim)s AND {half} IS NOT NULL
ORDER BY {half}::halfvec({dim}) <=> %(vector)s::halfvec({dim}) LIMIT %(limit)s"""
# Vectors without a direction, which an index by cosine leaves out.
NOT_INDEXED = """
SELECT key, {vector} FROM vectors
WHERE graph = %(id)s AND model = %(model)s AND dim = %(dim)s AND {half} IS NULL
    AND {vector} IS NOT NULL ORDER BY key LIMIT %(limit)s"""
# A plan is made for the values: one for any could not use the index of a model.
NEAREST_SCAN = """
SELECT set_config('plan_cache_mode', 'force_custom_plan', true),
    set_config('hnsw.iterative_scan', 'relaxed_order', true),
    set_config('hnsw.ef_search', %(ef)s, true),
    set_config('hnsw.max_scan_tuples', %(tuples)s, true)"""
VECTORS_AFTER = """
SELECT key, {vector} FROM vectors
WHERE graph = %(id)s AND model = %(model)s AND dim = %(dim)s AND {vector} IS NOT NULL
    AND key > %(after)s ORDER BY key LIMIT %(limit)s"""
WIDE_GRAPHS = """
SELECT id, key, nodes, edges, content_words, name_words, vectors_version FROM graphs
WHERE workspace = %(workspace)s AND (%(graphs)s::text[] IS NULL OR key = ANY(%(graphs)s::text[]))
ORDER BY key"""
WIDE_NODES = """
SELECT graphs.key, graphs.body ->> 'name', nodes.body
FROM unnest(%(graphs)s::text[], %(keys)s::text[]) AS wanted (graph, key)
JOIN graphs ON graphs.key = wanted.graph COLLATE "C" AND graphs.workspace = %(workspace)s
JOIN nodes ON nodes.graph = graphs.id AND nodes.key = wanted.key COLLATE "C" """
WIDE_VECTORS = """
SELECT graph, key, {vector} FROM vectors
WHERE graph = ANY(%(graphs)s::bigint[]) AND model = %(model)s AND dim = %(dim)s
    AND {vector} IS NOT NULL
ORDER BY graph, key LIMIT %(most)s"""
USERS = """
SELECT graphs.key, graphs.body ->> 'name', nodes.body
FROM nodes JOIN graphs ON graphs.id = nodes.graph
WHERE nodes.id IN (SELECT node FROM uses
        WHERE workspace = %(workspace)s AND entry = ANY(%(entries)s::text[]))
    AND (%(graphs)s::text[] IS NULL OR graphs.key = ANY(%(graphs)s::text[]))
ORDER BY graphs.key, nodes.key LIMIT %(limit)s"""

# Records

RECORD_GET = """
SELECT version, data FROM records
WHERE workspace = %(workspace)s AND kind = %(kind)s AND key = %(key)s"""
RECORD_PAGE = """
SELECT key, version, data FROM records WHERE workspace = %(workspace)s AND kind = %(kind)s
    AND (%(after)s::text IS NULL OR key > %(after)s) ORDER BY key LIMIT %(limit)s"""
_FIELDS_PUT = """
fields AS (
    INSERT INTO record_fields (workspace, kind, name, key, value)
    SELECT %(workspace)s, %(kind)s, name, %(key)s, value
    FROM put, unnest(%(names)s::text[], %(values)s::text[]) AS field (name, value)
    ON CONFLICT (workspace, kind, name, key) DO UPDATE SET value = excluded.value
    WHERE record_fields.value <> excluded.value
)
SELECT version FROM put"""
RECORD_ABSENT = """
SELECT 0 WHERE NOT EXISTS (SELECT FROM records
    WHERE workspace = %(workspace)s AND kind = %(kind)s AND key = %(key)s)"""
RECORD_INSERT = f"""
WITH put AS (
    INSERT INTO records (workspace, kind, key, version, fields, data)
    VALUES (%(workspace)s, %(kind)s, %(key)s, nextval('record_versions'), %(values)s, %(data)s)
    ON CONFLICT DO NOTHING RETURNING version
),
{_FIELDS_PUT}"""
RECORD_UPDATE = f"""
WITH put AS (
    UPDATE records
    SET version = nextval('record_versions'), fields = %(values)s, data = %(data)s
    WHERE workspace = %(workspace)s AND kind = %(kind)s AND key = %(key)s
        AND version = %(expected)s
    RETURNING version
),
{_FIELDS_PUT}"""
RECORD_DELETE = """
WITH gone AS (
    DELETE FROM records WHERE workspace = %(workspace)s AND kind = %(kind)s AND key = %(key)s
        AND version = %(expected)s
    RETURNING version
),
fields AS (
    DELETE FROM record_fields WHERE workspace = %(workspace)s AND kind = %(kind)s
        AND key = %(key)s AND name = ANY(%(names)s::text[]) AND EXISTS (SELECT FROM gone)
)
SELECT version FROM gone"""
