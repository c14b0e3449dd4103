"""Commands in English and French become one proposal each, which the write tools accept."""

from __future__ import annotations

from typing import Any

from tests.graphrag.rules.talk import keys_of, nba, talk, workflow
from tests.support.each_row import each_row

# graph, command, tool, arguments that must be among those given
COMMANDS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("nba", "add a starter", "create_node", {"typeKey": "starter"}),
    ("nba", 'create a node of type html called "Page" on sheet data-processing', "create_node",
     {"typeKey": "html", "data": {"name": "Page"}, "sheet": "data-processing"}),
    ("nba", 'add a filter named "Only stars" after filter-active', "create_node_with_edges",
     {"typeKey": "filter", "data": {"name": "Only stars"},
      "edges": [{"direction": "in", "handleId": "0", "targetNodeKey": "filter-active",
     "targetHandleId": "0"}]}),
    ("nba", 'crée un filtre nommé "Étoiles" avant display-html sur la feuille main', "create_node_with_edges",
     {"typeKey": "filter", "data": {"name": "Étoiles"}, "sheet": "main"}),
    ("nba", 'ajoute un nœud de type transform nommé "Arrondir" entre fetch-api et filter-active', "batch",
     {"actions": [
         {"type": "create_node_with_edges", "payload": {
             "typeKey": "transform", "data": {"name": "Arrondir"}, "edges": [
                 {"direction": "in", "handleId": "0", "targetNodeKey": "fetch-api", "targetHandleId": "0"},
                 {"direction": "out", "handleId": "0", "targetNodeKey": "filter-active",
     "targetHandleId": "0"}]}},
         {"type": "delete_edge", "payload": {"edgeKey": "edge-fetch-filter"}}]}),
    ("nba", "relie filter-active à return", "create_edge",
     {"sourceKey": "filter-active", "sourceHandle": "0", "targetKey": "return", "targetHandle": "0"}),
    ("nba", 'connect the error output of fetch-api to return labeled "failed"', "create_edge",
     {"sourceKey": "fetch-api", "sourceHandle": "1", "targetKey": "return", "label": "failed"}),
    ("nba", "ajoute un lien entre sort-stats et disconnected-note", "create_edge",
     {"sourceKey": "sort-stats", "targetKey": "disconnected-note"}),
    ("nba", "delete disconnected-note", "delete_node", {"nodeKey": "disconnected-note"}),
    ("nba", "please could you delete the node \"Note\"?", "delete_node", {"nodeKey": "disconnected-note"}),
    ("nba", "supprime le lien entre fetch-api et error-handler", "delete_edge",
     {"edgeKey": "edge-fetch-error"}),
    ("nba", "disconnect root and fetch-api", "delete_edge", {"edgeKey": "edge-root-fetch"}),
    ("nba", 'rename fetch-api to "Get players"', "update_node",
     {"nodeKey": "fetch-api", "changes": {"data.name": "Get players"}}),
    ("nba", "renomme le nœud Log fetch error en Journal des échecs", "update_node",
     {"nodeKey": "error-handler", "changes": {"data.name": "Journal des échecs"}}),
    ("nba", "set timeoutMs of fetch-api to 5000", "update_node", {"changes": {"data.timeoutMs": 5000}}),
    ("nba", "mets minGames à 12 sur filter-active", "update_node", {"changes": {"data.minGames": 12}}),
    ("nba", "move root 100 px to the left", "move_node", {"posX": 0, "posY": 300}),
    ("nba", 'call fetch-api "Loader"', "update_node", {"changes": {"data.name": "Loader"}}),
    ("nba", "set fetch-api's timeoutMs to 5000", "update_node", {"changes": {"data.timeoutMs": 5000}}),
    ("nba", "set fetch-api.headers.Accept to text/csv", "update_node",
     {"changes": {"data.headers.Accept": "text/csv"}}),
    ("nba", 'change l\'url de fetch-api en "https://example.org"', "update_node",
     {"changes": {"data.url": "https://example.org"}}),
    ("nba", "set the accept of display-html to [1, 2]", "update_node", {"changes": {"data.accept": [1, 2]}}),
    ("nba", 'set the code of return to "return 1;"', "update_node", {"changes": {"process": "return 1;"}}),
    ("nba", "déplace return en 1600, 320", "move_node", {"nodeKey": "return", "posX": 1600, "posY": 320}),
    ("nba", "décale fetch-api vers la droite de 150", "move_node", {"posX": 550, "posY": 280}),
    ("nba", "tidy the layout", "reorganize_layout", {"strategy": "left_to_right"}),
    ("nba", "range la feuille data-processing de haut en bas", "reorganize_layout",
     {"nodeKeys": ["disconnected-note", "sort-stats"], "strategy": "top_down"}),
    ("order_refund", 'connect "Route decision" (approve) to "Ask a colleague"', "create_edge",
     {"sourceKey": "route-decision", "sourceHandle": "0", "targetKey": "ask-a-colleague"}),
    ("order_refund", "déconnecte refuse-late-request de tell-customer", "delete_edge",
     {"edgeKey": "refuse-late-request.0--tell-customer.0"}),
    ("order_refund", 'insert an if node between refund-request-form and look-up-order named "Is complete?"',
     "batch", {}),
]  # fmt: skip


@each_row("graph, command, tool, arguments", COMMANDS)
async def test_command_becomes_one_accepted_proposal(
    graph: str, command: str, tool: str, arguments: dict[str, Any]
) -> None:
    context = nba() if graph == "nba" else await workflow(graph)
    turn = await talk(context, command)
    assert [name for name, _ in turn.proposals] == [f"propose_{tool}"]
    given = turn.proposals[0][1]
    assert {name: given.get(name) for name in arguments} == arguments
    assert given["reason"]
    assert not turn.results[-1].is_error, turn.results[-1].text
    assert turn.cited <= await keys_of(context)
    assert "a person decides" in turn.text or "une personne décide" in turn.text


# What must not be guessed: the command, and what the answer must say.
ASKED_BACK = [
    ("delete the log node", "Several nodes fit|error-handler|disconnected-note"),
    ("delete fetch-apy", "no node called `fetch-apy`|{{node:fetch-api}}"),
    ("add a node after fetch-api", "Of which type|`filter`"),
    ("mets timeout de fetch-api à 3000", "`timeoutMs`"),
    ("connect error-handler to return", "No output of"),
    ("connect the maybe output of fetch-api to return", "No output of|`1` “error”"),
    ("disconnect root from return", "No edge connects"),
    ("add a log-node between fetch-api and filter-active", "no output that fits"),
    ("connect root to root", "Both names mean"),
    ("move fetch-api to sheet data-processing", "cannot be moved to another sheet"),
    ("move fetch-api", "Where to?"),
    ("delete everything", "What should be deleted?"),
    ("rename fetch-api to", "what should it be called"),
    ("delete it", "no node called `it`"),
    ("don't delete fetch-api", "nothing is proposed"),
    ("undo", "nodius undo"),
    ("create a sheet named x", "I understand"),
]


@each_row("command, said", ASKED_BACK)
async def test_what_is_unclear_is_asked_back_and_nothing_proposed(command: str, said: str) -> None:
    context = nba()
    turn = await talk(context, command)
    assert not turn.proposals
    for words in said.split("|"):
        assert words in turn.text
    assert turn.cited <= await keys_of(context)


REFUSED = [
    ("connect root to fetch-api", "the same connection is there already"),
    ("connect fetch-api to sort-stats", "an edge stays on one sheet"),
    ("delete the edge nowhere", "no edge 'nowhere'"),
]


@each_row("command, why", REFUSED)
async def test_refused_proposal_is_reported_with_its_reason_and_not_tried_again(
    command: str, why: str
) -> None:
    turn = await talk(nba(), command)
    assert len(turn.proposals) == 1
    assert turn.results[-1].is_error
    assert why in turn.text
    assert "nothing has changed" in turn.text


@each_row("command", ["delete disconnected-note", "add a filter", "range le graphe"])
async def test_viewer_learns_that_changes_are_not_for_them(command: str) -> None:
    turn = await talk(nba("viewer"), command)
    assert not turn.calls
    assert "reading only" in turn.text or "que la lecture" in turn.text
