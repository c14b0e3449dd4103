"""All SQL of reading and writing. Values are bound, never written into the text.

`:keys` and `:rids` are JSON arrays, read by json_each: one statement serves any number.
`:low` and `:high` are the range of row ids of a graph.
"""

from __future__ import annotations

GRAPH_ROW = """
SELECT id, revision, text_version, vector_version, nodes, edges, content_words, name_words, body
FROM graphs WHERE key = :key AND workspace = :workspace"""
GRAPH_ROW_BY_ID = """
SELECT id, revision, text_version, vector_version, nodes, edges, content_words, name_words, body
FROM graphs WHERE id = :graph"""
WORKSPACES = "SELECT DISTINCT workspace FROM graphs ORDER BY workspace"
GRAPH_LIST = "SELECT body FROM graphs WHERE workspace = :workspace ORDER BY key"
GRAPH_EXISTS = "SELECT 1 FROM graphs WHERE key = :key"
GRAPH_INSERT = "INSERT INTO graphs (key, workspace, body) VALUES (:key, :workspace, :body)"
GRAPH_DELETE = "DELETE FROM graphs WHERE id = :graph"
GRAPH_UPDATE = """
UPDATE graphs SET revision = :revision, text_version = text_version + :text_changed,
    vector_version = vector_version + :vectors_changed, next_number = :next_number,
    nodes = nodes + :nodes, edges = edges + :edges, content_words = content_words + :content_words,
    name_words = name_words + :name_words, body = :body
WHERE id = :graph"""
GRAPH_TEXT_UPDATE = """
UPDATE graphs SET text_version = text_version + 1, content_words = content_words + :content_words,
    name_words = name_words + :name_words WHERE id = :graph"""
GRAPH_VECTORS_UPDATE = "UPDATE graphs SET vector_version = vector_version + 1 WHERE id = :graph"
GRAPH_LANGUAGE = "SELECT CAST(body AS TEXT) ->> '$.language' FROM graphs WHERE id = :graph"
GRAPH_TEXT_VERSION = "SELECT text_version FROM graphs WHERE id = :graph"
GRAPH_NEXT_NUMBER = "SELECT next_number FROM graphs WHERE id = :graph"
GRAPH_IDS_OF_WORKSPACE = "SELECT id FROM graphs WHERE workspace = :workspace"
GRAPH_IDS_OF_ALL = "SELECT id, workspace FROM graphs"

TYPE_COUNTS = "SELECT type, count(*) FROM nodes WHERE graph = :graph GROUP BY type"
VECTOR_COUNTS = "SELECT model, sum(count) FROM vector_counts WHERE graph = :graph GROUP BY model"

_PAGE = """
SELECT body FROM {} WHERE graph = :graph AND key > :after AND (:sheet IS NULL OR sheet = :sheet)
ORDER BY key LIMIT :limit"""
NODES = _PAGE.format("nodes")
EDGES = _PAGE.format("edges")
_BY_KEY = """
SELECT d.body FROM json_each(:keys) j CROSS JOIN {} d ON d.graph = :graph AND d.key = j.value
ORDER BY j.key"""
NODES_BY_KEY = _BY_KEY.format("nodes")
EDGES_BY_KEY = _BY_KEY.format("edges")
NODE_RIDS = """
SELECT n.key, n.rid FROM json_each(:keys) j CROSS JOIN nodes n ON n.graph = :graph AND n.key = j.value
ORDER BY j.key"""
EDGE_RIDS = """
SELECT e.key, e.rid FROM json_each(:keys) j CROSS JOIN edges e ON e.graph = :graph AND e.key = j.value"""
NODE_KEYS = "SELECT n.rid, n.key FROM json_each(:rids) j CROSS JOIN nodes n ON n.rid = j.value"
NODE_BODIES = "SELECT n.rid, n.body FROM json_each(:rids) j CROSS JOIN nodes n ON n.rid = j.value"
ALL_NODES = "SELECT rid, key, body FROM nodes WHERE rid BETWEEN :low AND :high ORDER BY key"
ALL_EDGES = """
SELECT key, source, target, body FROM edges INDEXED BY edges_key WHERE graph = :graph ORDER BY key"""

# UNION removes duplicates: both halves return an edge if both of its ends are in :rids.
EDGES_OF = """
SELECT e.key, e.body FROM json_each(:rids) j CROSS JOIN edges e ON e.source = j.value
UNION SELECT e.key, e.body FROM json_each(:rids) j CROSS JOIN edges e ON e.target = j.value
ORDER BY 1"""
EDGES_INSIDE = """
SELECT e.body FROM json_each(:rids) j CROSS JOIN edges e ON e.source = j.value
WHERE e.target IN (SELECT value FROM json_each(:rids)) ORDER BY e.key"""
LINKS_OF = """
SELECT s.key, t.key FROM (
    SELECT e.key AS k, e.source AS s, e.target AS t
    FROM json_each(:rids) j CROSS JOIN edges e ON e.source = j.value
    UNION SELECT e.key, e.source, e.target
    FROM json_each(:rids) j CROSS JOIN edges e ON e.target = j.value
    ORDER BY 1 LIMIT :limit
) CROSS JOIN nodes s ON s.rid = s CROSS JOIN nodes t ON t.rid = t ORDER BY k"""
TYPED_LINKS_OF = """
SELECT s.key, t.key, e.body FROM (
    SELECT e.rid AS rid FROM json_each(:rids) j CROSS JOIN edges e ON e.source = j.value
    UNION SELECT e.rid FROM json_each(:rids) j CROSS JOIN edges e ON e.target = j.value
) CROSS JOIN edges e USING (rid) CROSS JOIN nodes s ON s.rid = e.source
CROSS JOIN nodes t ON t.rid = e.target ORDER BY e.key"""
# A hub's edges are not counted to the end.
RIDS_OF_DEGREE = """
SELECT value FROM (
    SELECT j.key, j.value, (
        SELECT count(*) FROM (SELECT 1 FROM edges e WHERE e.source = j.value LIMIT :most + 1)
    ) + (
        SELECT count(*) FROM (
            SELECT 1 FROM edges e WHERE e.target = j.value AND e.source <> j.value LIMIT :most + 1
        )
    ) AS degree FROM json_each(:rids) j
) WHERE degree <= :most ORDER BY degree, key LIMIT :limit"""
NEXT_OUT = """
SELECT DISTINCT n.key, n.rid FROM json_each(:rids) j CROSS JOIN edges e ON e.source = j.value
CROSS JOIN nodes n ON n.rid = e.target ORDER BY n.key LIMIT :limit"""
NEXT_IN = """
SELECT DISTINCT n.key, n.rid FROM json_each(:rids) j CROSS JOIN edges e ON e.target = j.value
CROSS JOIN nodes n ON n.rid = e.source ORDER BY n.key LIMIT :limit"""
NEXT_ANY = """
SELECT n.key, n.rid FROM json_each(:rids) j CROSS JOIN edges e ON e.source = j.value
CROSS JOIN nodes n ON n.rid = e.target
UNION SELECT n.key, n.rid FROM json_each(:rids) j CROSS JOIN edges e ON e.target = j.value
CROSS JOIN nodes n ON n.rid = e.source ORDER BY 1 LIMIT :limit"""

CONFIGS = "SELECT workspace, body FROM configs WHERE workspace IN (:workspace, :root)"
OWN_CONFIGS = "SELECT body FROM configs WHERE workspace = :workspace ORDER BY key"
CONFIG_KEYS = "SELECT key FROM configs WHERE workspace = :workspace"
CONFIG_PUT = """
INSERT INTO configs (workspace, key, type, body) VALUES (:workspace, :key, :type, :body)
ON CONFLICT (workspace, key) DO UPDATE SET type = excluded.type, body = excluded.body"""
CONFIG_DELETE = "DELETE FROM configs WHERE workspace = :workspace AND key = :key"
NODES_OF_TYPES = """
SELECT n.rid, n.body FROM json_each(:types) j CROSS JOIN nodes n ON n.graph = :graph AND n.type = j.value"""

NODE_KEYS_ON_SHEET = "SELECT key FROM nodes WHERE graph = :graph AND sheet = :sheet"
EDGES_ON_SHEET = """
SELECT e.key, s.key, t.key FROM edges e JOIN nodes s ON s.rid = e.source JOIN nodes t ON t.rid = e.target
WHERE e.graph = :graph AND e.sheet = :sheet"""
# OR FAIL: a failed write is rolled back whole, so SQLite need not be able to undo
# the statement alone.
NODE_INSERT = (
    "INSERT OR FAIL INTO nodes (rid, graph, key, sheet, type, body) VALUES (?, ?, ?, ?, ?, ?)"
)
NODE_UPDATE = "UPDATE nodes SET sheet = ?, type = ?, body = ? WHERE rid = ?"
NODE_DELETE = "DELETE FROM nodes WHERE rid = ?"
EDGE_INSERT = """
INSERT OR FAIL INTO edges (rid, graph, key, sheet, source, target, body) VALUES (?, ?, ?, ?, ?, ?, ?)"""
EDGE_UPDATE = "UPDATE edges SET sheet = ?, source = ?, target = ?, body = ? WHERE rid = ?"
EDGE_DELETE = "DELETE FROM edges WHERE rid = ?"
EDGES_OF_NODE_DELETE = "DELETE FROM edges WHERE source = :rid OR target = :rid"

WORDS_OF = """
SELECT j.value, w.key, w.name, w.type, w.type_name, w.description, w.data, w.process
FROM json_each(:rids) j CROSS JOIN words w ON w.rowid = j.value"""
WORDS_IN_ORDER = """
SELECT n.rid, n.key, w.key, w.name, w.type, w.type_name, w.description, w.data, w.process
FROM nodes n CROSS JOIN words w ON w.rowid = n.rid WHERE n.rid BETWEEN :low AND :high ORDER BY n.rid"""
WORDS_INSERT = """
INSERT INTO words (rowid, key, name, type, type_name, description, data, process)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
WORDS_DELETE = "DELETE FROM words WHERE rowid = ?"
WORDS_DELETE_RANGE = "DELETE FROM words WHERE rowid BETWEEN :low AND :high"
MATCH = """
SELECT rowid FROM words WHERE words MATCH :query AND rowid BETWEEN :low AND :high LIMIT :limit"""

VECTOR_PUT = """
INSERT INTO vectors (rid, model, hash, dim, content, name) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (rid) DO UPDATE SET model = excluded.model, hash = excluded.hash, dim = excluded.dim,
    content = excluded.content, name = excluded.name"""
VECTOR_MODELS = """
SELECT v.rid, v.model, v.dim FROM json_each(:rids) j CROSS JOIN vectors v ON v.rid = j.value"""
VECTOR_COUNT_ADD = """
INSERT INTO vector_counts (graph, model, dim, count) VALUES (?, ?, ?, ?)
ON CONFLICT (graph, model, dim) DO UPDATE SET count = count + excluded.count"""
VECTOR_COUNT_CLEAN = "DELETE FROM vector_counts WHERE graph = :graph AND count <= 0"
VECTOR_COUNT = """
SELECT count FROM vector_counts WHERE graph = :graph AND model = :model AND dim = :dim"""
VECTOR_GROUPS = "SELECT model, dim FROM vector_counts WHERE graph = :graph"
VECTOR_INFO = """
SELECT n.key, v.model, v.hash FROM json_each(:keys) j
CROSS JOIN nodes n ON n.graph = :graph AND n.key = j.value CROSS JOIN vectors v ON v.rid = n.rid"""
VECTORS_BY_KEY = """
SELECT n.key, v.model, v.hash, v.content, v.name FROM json_each(:keys) j
CROSS JOIN nodes n ON n.graph = :graph AND n.key = j.value CROSS JOIN vectors v ON v.rid = n.rid"""
_ALL_OF = """
SELECT rid, {0} FROM vectors
WHERE rid BETWEEN :low AND :high AND model = :model AND dim = :dim AND {0} IS NOT NULL ORDER BY rid"""
_SOME_OF = """
SELECT v.rid, v.{0} FROM json_each(:rids) j CROSS JOIN vectors v ON v.rid = j.value
WHERE v.model = :model AND v.dim = :dim AND v.{0} IS NOT NULL"""
VECTORS = {field: _ALL_OF.format(field) for field in ("content", "name")}
VECTORS_OF = {field: _SOME_OF.format(field) for field in ("content", "name")}

# `graphs` is null for all graphs of a workspace. Each is looked for within its own range
# of row ids.
_OF_WORKSPACE = """g.workspace = :workspace
    AND (:graphs IS NULL OR g.key IN (SELECT value FROM json_each(:graphs)))"""
_RANGE = "BETWEEN g.id << 32 AND (g.id + 1 << 32) - 1"
USES_OF = "SELECT j.value, u.entry FROM json_each(:rids) j CROSS JOIN uses u ON u.rid = j.value"
USES_DELETE = "DELETE FROM uses WHERE rid = ?"
USES_INSERT = "INSERT INTO uses (entry, rid) VALUES (?, ?)"
USERS = f"""
SELECT g.key, json_extract(CAST(g.body AS TEXT), '$.name'), n.body FROM graphs g
CROSS JOIN json_each(:entries) j CROSS JOIN uses u ON u.entry = j.value AND u.rid {_RANGE}
CROSS JOIN nodes n ON n.rid = u.rid
WHERE {_OF_WORKSPACE} GROUP BY g.key, n.key ORDER BY g.key, n.key LIMIT :limit"""
WIDE_GRAPHS = f"""
SELECT c.id, c.key, c.nodes, c.edges, c.content_words, c.name_words, c.vector_version,
    (SELECT coalesce(sum(o.nodes), 0) FROM graphs o WHERE o.id > c.before AND o.id < c.id)
FROM (
    SELECT g.id, g.key, g.nodes, g.edges, g.content_words, g.name_words, g.vector_version,
        lag(g.id, 1, g.id) OVER (ORDER BY g.id) AS before
    FROM graphs g WHERE {_OF_WORKSPACE}) c"""
WIDE_MATCH = """
SELECT w.rowid FROM json_each(:ranges) r
CROSS JOIN words w ON w.rowid BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')
WHERE w.words MATCH :query AND w.rowid >> 32 IN (SELECT value FROM json_each(:ids)) LIMIT :most"""
WIDE_WORDS = """
SELECT g.key, n.key, w.key, w.name, w.type, w.type_name, w.description, w.data, w.process
FROM json_each(:rids) j CROSS JOIN words w ON w.rowid = j.value CROSS JOIN nodes n ON n.rid = j.value
CROSS JOIN graphs g ON g.id = n.graph"""
WIDE_VECTORS = f"""
SELECT g.key, n.key, v.content, v.name FROM graphs g CROSS JOIN vectors v ON v.rid {_RANGE}
CROSS JOIN nodes n ON n.rid = v.rid
WHERE {_OF_WORKSPACE} AND v.model = :model AND v.dim = :dim LIMIT :most"""
WIDE_NODES = """
SELECT g.key, json_extract(CAST(g.body AS TEXT), '$.name'), n.body FROM json_each(:names) j
CROSS JOIN graphs g ON g.key = json_extract(j.value, '$[0]') AND g.workspace = :workspace
CROSS JOIN nodes n ON n.graph = g.id AND n.key = json_extract(j.value, '$[1]')"""

RECORD_GET = (
    "SELECT version, data FROM records WHERE workspace = :workspace AND kind = :kind AND key = :key"
)
RECORD_VERSION = (
    "SELECT version FROM records WHERE workspace = :workspace AND kind = :kind AND key = :key"
)
_RECORD_PAGE = """
SELECT key, version, data FROM records WHERE workspace = :workspace AND kind = :kind AND key {} :after
ORDER BY key LIMIT :limit"""
RECORD_PAGE = _RECORD_PAGE.format(">")
RECORD_FIRST_PAGE = _RECORD_PAGE.format(">=")  # `after` is the empty text
# Jumps from one workspace to the next without reading the records in between.
RECORD_WORKSPACES = """
WITH RECURSIVE w (name) AS (
    SELECT min(workspace) FROM records
    UNION ALL SELECT (SELECT min(workspace) FROM records WHERE workspace > name) FROM w WHERE name IS NOT NULL
)
SELECT name FROM w WHERE EXISTS (SELECT 1 FROM records r WHERE r.workspace = name AND r.kind = :kind)
ORDER BY name"""
RECORD_PUT = """
INSERT INTO records (workspace, kind, key, version, data) VALUES (:workspace, :kind, :key, :version, :data)
ON CONFLICT (workspace, kind, key) DO UPDATE SET version = excluded.version, data = excluded.data"""
RECORD_DELETE = "DELETE FROM records WHERE workspace = :workspace AND kind = :kind AND key = :key"
RECORD_NEXT_VERSION = """
INSERT INTO meta (name, value) VALUES ('record_version', '1')
ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1 RETURNING CAST(value AS INTEGER)"""

GRAPH_CHANGES = "SELECT value FROM meta WHERE name = 'graph_changes'"
IDENTITY = "SELECT value FROM meta WHERE name = 'identity'"
TOTALS = "SELECT count(*), coalesce(sum(nodes), 0), coalesce(sum(edges), 0) FROM graphs"

WORDS_MADE = "SELECT value FROM meta WHERE name = :name"
WORDS_ARE_MADE = """
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value"""
GRAPHS_WITH_TEXT = """
SELECT g.id, g.workspace FROM graphs g WHERE EXISTS (
  SELECT 1 FROM nodes n WHERE n.graph = g.id AND CAST(n.body AS TEXT) GLOB :letters
) OR EXISTS (SELECT 1 FROM configs c WHERE CAST(c.body AS TEXT) GLOB :letters)"""
