-- What a new file is made with: statements that end with a semicolon, which stands nowhere else.

CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE graphs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    workspace TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,
    text_version INTEGER NOT NULL DEFAULT 0,
    vector_version INTEGER NOT NULL DEFAULT 0,
    text_log_floor INTEGER NOT NULL DEFAULT 0,
    vector_log_floor INTEGER NOT NULL DEFAULT 0,
    next_number INTEGER NOT NULL DEFAULT 1,
    nodes INTEGER NOT NULL DEFAULT 0,
    edges INTEGER NOT NULL DEFAULT 0,
    content_words INTEGER NOT NULL DEFAULT 0,
    name_words INTEGER NOT NULL DEFAULT 0,
    body BLOB NOT NULL
);

CREATE INDEX graphs_workspace ON graphs (workspace, key);

CREATE TABLE nodes (
    rid INTEGER PRIMARY KEY,
    graph INTEGER NOT NULL REFERENCES graphs (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    sheet TEXT NOT NULL,
    type TEXT NOT NULL,
    body BLOB NOT NULL
);

CREATE UNIQUE INDEX nodes_key ON nodes (graph, key);

CREATE INDEX nodes_type ON nodes (graph, type);

CREATE TABLE edges (
    rid INTEGER PRIMARY KEY,
    graph INTEGER NOT NULL REFERENCES graphs (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    sheet TEXT NOT NULL,
    source INTEGER NOT NULL REFERENCES nodes (rid) ON DELETE CASCADE,
    target INTEGER NOT NULL REFERENCES nodes (rid) ON DELETE CASCADE,
    body BLOB NOT NULL
);

CREATE UNIQUE INDEX edges_key ON edges (graph, key);

CREATE INDEX edges_source ON edges (source, target);

CREATE INDEX edges_target ON edges (target, source);

CREATE TABLE configs (
    workspace TEXT NOT NULL,
    key TEXT NOT NULL,
    type TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (workspace, key)
) WITHOUT ROWID;

CREATE VIRTUAL TABLE words USING fts5 (
    key, name, type, type_name, description, data, process, tokenize = 'ascii'
);

CREATE TABLE vectors (
    rid INTEGER PRIMARY KEY REFERENCES nodes (rid) ON DELETE CASCADE,
    model TEXT NOT NULL,
    hash TEXT NOT NULL,
    dim INTEGER NOT NULL,
    content BLOB NOT NULL,
    name BLOB
);

CREATE TABLE vector_counts (
    graph INTEGER NOT NULL REFERENCES graphs (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    dim INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (graph, model, dim)
) WITHOUT ROWID;

CREATE TABLE text_log (
    rid INTEGER PRIMARY KEY,
    graph INTEGER NOT NULL REFERENCES graphs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL
);

CREATE INDEX text_log_number ON text_log (graph, number);

CREATE TABLE vector_log (
    rid INTEGER PRIMARY KEY,
    graph INTEGER NOT NULL REFERENCES graphs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL
);

CREATE INDEX vector_log_number ON vector_log (graph, number);

CREATE TABLE records (
    workspace TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (workspace, kind, key)
) WITHOUT ROWID;

CREATE TABLE uses (
    entry TEXT NOT NULL,
    rid INTEGER NOT NULL REFERENCES nodes (rid) ON DELETE CASCADE,
    PRIMARY KEY (entry, rid)
) WITHOUT ROWID;

CREATE INDEX uses_rid ON uses (rid);

-- Less merging than at FTS5's own setting, and more parts to search.
INSERT INTO words (words, rank) VALUES ('automerge', 8);
