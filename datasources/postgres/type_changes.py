"""Changes of node types, and of the words of nodes that depend on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from datasources import mutations
from datasources.builtin_types import reworded_types, types_by_name
from datasources.errors import BadDocument
from datasources.postgres import statements as sql
from datasources.postgres.graph_header import GraphHeader, check_text, texts
from datasources.postgres.node_words import StoredWords, WordTotals, words_of
from datasources.postgres.put_statements import CHUNK, count_puts, term_puts
from datasources.postgres.server_pool import Bound, Session
from datasources.stored_types import parsed_configs
from datasources.types import ROOT_WORKSPACE, Node, NodeTypeConfig, parse_document

Configs = Mapping[str, NodeTypeConfig]


def renew_words(session: Session, renewed: Callable[[int], None]) -> None:
    """Stores the words of all nodes again. Calls `renewed` with the number of nodes of a page."""
    for (workspace,) in session.rows(sql.WORKSPACES, {}):
        configs = types_by_name(_types_of(session, [workspace])[workspace])
        for graph, types in session.rows(sql.GRAPHS_AND_TYPES, {"workspace": workspace}):
            reindex(session, workspace, graph, types, configs, renewed)


def change_configs(
    session: Session,
    workspace: str,
    put: Sequence[NodeTypeConfig],
    delete: Sequence[str],
) -> list[NodeTypeConfig]:
    """Changes node types and the words of the nodes whose text they change, in every graph that
    sees them. Returns the types that the workspace sees then.
    """
    seeing = [workspace]
    if workspace == ROOT_WORKSPACE:
        seeing = sorted({workspace, *(name for (name,) in session.rows(sql.WORKSPACES, {}))})
    before = _types_of(session, seeing)
    changes = [_config_put(workspace, config) for config in put]
    if delete:
        keys = texts(delete)
        changes.append(Bound(sql.CONFIGS_DELETE, {"workspace": workspace, "keys": keys}))
    session.batch(*changes, Bound(sql.TYPES_CHANGED, {"workspace": workspace}))
    after = _types_of(session, seeing)
    for name in seeing:
        configs = types_by_name(after[name])
        changed = texts(reworded_types(types_by_name(before[name]), configs))
        if changed:
            scope = {"workspace": name, "types": changed}
            for (graph,) in session.rows(sql.GRAPHS_WITH_TYPES, scope):
                reindex(session, name, graph, changed, configs)
    return after[workspace]


def _config_put(workspace: str, config: NodeTypeConfig) -> Bound:
    key = config.key
    values = {
        "workspace": workspace,
        "key": key,
        "type": check_text(config.type, collection="node_configs", key=key, field="type"),
        "body": mutations.encode_document(config, "node_configs", key).decode(),
    }
    return Bound(sql.CONFIG_PUT, values)


def _types_of(session: Session, workspaces: Sequence[str]) -> dict[str, list[NodeTypeConfig]]:
    """Returns the types that each workspace sees."""
    found = session.batch(*(Bound(sql.CONFIGS, {"workspace": name}) for name in workspaces))
    return {name: parsed_configs(rows, name) for name, rows in zip(workspaces, found, strict=True)}


def reindex(
    session: Session,
    workspace: str,
    graph: int,
    types: Sequence[str],
    configs: Configs,
    renewed: Callable[[int], None] = lambda _: None,
) -> None:
    """Stores the new words of every node of these types in a graph. A node that cannot be parsed
    keeps its words. Calls `renewed` with the number of nodes of each page.
    """
    rows = session.rows(sql.GRAPH_LOCK_BY_ID, {"id": graph})
    if not rows:
        return  # deleted meanwhile
    row = GraphHeader(*rows[0])
    scope = {"workspace": workspace, "id": graph, "version": row.version + 1}
    totals = WordTotals()
    after = ""
    while page := session.rows(
        sql.NODES_OF_TYPES, {"id": graph, "types": list(types), "after": after, "limit": CHUNK}
    ):
        after = page[-1][0]
        reworded: dict[str, StoredWords] = {}
        for key, names, others, body in page:
            with suppress(BadDocument):
                node = parse_document(Node, body, "nodes")
                new = words_of(node, configs.get(node.type), row.graph.language)
                if totals.replace(StoredWords(names, others), new):
                    reworded[key] = new
        if reworded:
            session.batch(_words_update(scope, reworded), *term_puts(scope, reworded))
        renewed(len(page))
    if totals.nodes or totals.content_words:
        sizes = {"content_words": totals.content_words, "name_words": totals.name_words}
        session.batch(*count_puts(scope, totals), Bound(sql.GRAPH_TOUCH, {"id": graph, **sizes}))


def _words_update(scope: Mapping[str, Any], words: Mapping[str, StoredWords]) -> Bound:
    values = {
        **scope,
        "keys": list(words),
        "name_words": [one.names for one in words.values()],
        "other_words": [one.others for one in words.values()],
    }
    return Bound(sql.WORDS_UPDATE, values)
