-- What `nodius db init` makes: statements that end with a semicolon, which stands nowhere else.
-- Every name is made in the schema `nodius`. Text is compared by code points (COLLATE "C").

CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);

CREATE TABLE graphs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL UNIQUE,
    revision bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0,
    vectors_version bigint NOT NULL DEFAULT 0,
    removed_from bigint NOT NULL DEFAULT 0,
    nodes bigint NOT NULL DEFAULT 0,
    edges bigint NOT NULL DEFAULT 0,
    content_words bigint NOT NULL DEFAULT 0,
    name_words bigint NOT NULL DEFAULT 0,
    body json NOT NULL
);

CREATE INDEX graphs_workspace ON graphs (workspace, key);

CREATE TABLE nodes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace text COLLATE "C" NOT NULL,
    graph bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    sheet text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    name_words text NOT NULL,
    other_words text NOT NULL,
    body json NOT NULL,
    UNIQUE (graph, key)
);

CREATE INDEX nodes_version ON nodes (graph, version);

CREATE TABLE node_terms (
    node bigint PRIMARY KEY REFERENCES nodes (id) ON DELETE CASCADE,
    terms bigint[] NOT NULL
);

CREATE INDEX node_terms_terms ON node_terms USING gin (terms);

CREATE TABLE term_counts (
    workspace text COLLATE "C" NOT NULL,
    term bigint NOT NULL,
    graph bigint NOT NULL,
    nodes bigint NOT NULL,
    PRIMARY KEY (workspace, term, graph)
);

CREATE INDEX term_counts_graph ON term_counts (graph);

CREATE TABLE uses (
    workspace text COLLATE "C" NOT NULL,
    entry text COLLATE "C" NOT NULL,
    node bigint NOT NULL REFERENCES nodes (id) ON DELETE CASCADE,
    PRIMARY KEY (workspace, entry, node)
);

CREATE INDEX uses_node ON uses (node);

CREATE TABLE edges (
    workspace text COLLATE "C" NOT NULL,
    graph bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    sheet text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    body json NOT NULL,
    PRIMARY KEY (graph, key)
);

CREATE INDEX edges_version ON edges (graph, version);

CREATE INDEX edges_source ON edges (graph, source);

CREATE INDEX edges_target ON edges (graph, target);

CREATE TABLE vectors (
    workspace text COLLATE "C" NOT NULL,
    graph bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    hash text NOT NULL,
    dim integer NOT NULL,
    version bigint NOT NULL,
    content bytea NOT NULL,
    name bytea,
    PRIMARY KEY (graph, key)
);

CREATE INDEX vectors_version ON vectors (graph, version);

CREATE TABLE removed (
    workspace text COLLATE "C" NOT NULL,
    graph bigint NOT NULL,
    version bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (graph, version, kind, key)
);

CREATE TABLE configs (
    workspace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    body json NOT NULL,
    PRIMARY KEY (workspace, key)
);

CREATE TABLE type_versions (
    workspace text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL
);

CREATE SEQUENCE record_versions;

CREATE TABLE records (
    workspace text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    fields text[] COLLATE "C" NOT NULL,
    data json NOT NULL,
    PRIMARY KEY (workspace, kind, key)
);

CREATE INDEX records_kind ON records (kind, workspace, key);

CREATE TABLE record_fields (
    workspace text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, kind, name, key)
);

CREATE INDEX record_fields_value ON record_fields (workspace, kind, name, value, key);

CREATE TABLE writers (
    id uuid PRIMARY KEY,
    number bigint NOT NULL,
    seen timestamptz NOT NULL DEFAULT now()
);
