"""Commands in English and French become one proposal each, which the write tools accept."""

from typing import Any

import pytest

from graphrag.agent.reply import sources_of
from graphrag.i18n import LANGUAGES
from graphrag.retrieval.suggestions import suggest
from graphrag.rules.graph_answers import clock_words
from mock_data import load_text
from tests.graphrag.rules.marked import FILES, Answered, asked, asking, imported, mark_all
from tests.graphrag.rules.talk import CITED, keys_of, made, nba, talk, workflow
from tests.support.agents import GRAPH, Setting
from tests.support.data_files import needs_published

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


@pytest.mark.parametrize(("graph", "command", "tool", "arguments"), [*COMMANDS])
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


@pytest.mark.parametrize(("command", "said"), [*ASKED_BACK])
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


@pytest.mark.parametrize(("command", "why"), [*REFUSED])
async def test_refused_proposal_is_said_with_its_reason_and_not_tried_again(
    command: str, why: str
) -> None:
    turn = await talk(nba(), command)
    assert len(turn.proposals) == 1
    assert turn.results[-1].is_error
    assert why in turn.text
    assert "nothing has changed" in turn.text


@pytest.mark.parametrize("command", ["delete disconnected-note", "add a filter", "range le graphe"])
async def test_viewer_learns_that_changes_are_not_for_them(command: str) -> None:
    turn = await talk(nba("viewer"), command)
    assert not turn.calls
    assert "reading only" in turn.text or "que la lecture" in turn.text


# graph, question, keys that must be cited, words that must be said
QUESTIONS = [
    ("nba", "Describe this graph", "entry-form fetch-api sort-stats", "NBA Stats Pipeline|9 nodes|6 edges"),
    ("nba", "décris le graphe", "entry-form return", "9 nœuds|6 arêtes"),
    ("nba", "what is fetch-api?", "fetch-api root error-handler filter-active", "API Call|timeoutMs:8000"),
    ("nba", "qu'est-ce que fetch-api ?", "fetch-api", "du type API Call"),
    ("nba", "describe {{node:sort-stats}}", "sort-stats", "has no edge"),
    ("nba", "what does the filter do?", "filter-active fetch-api", "of type Filter"),
    ("nba", "what comes after fetch-api?", "error-handler filter-active", "error|success"),
    ("nba", "Qu'est-ce qui vient avant display-html ?", "filter-active", "Avant"),
    ("nba", "what comes after fecth-api?", "fetch-api error-handler", "After"),
    ("nba", "où va root ?", "fetch-api", "Après"),
    ("nba", "voisins de fetch-api", "root error-handler filter-active", "Autour de"),
    ("nba", "what connects to return?", "display-html", "Before"),
    ("nba", "path from entry-form to return", "entry-form root fetch-api display-html", "5 step(s)"),
    ("nba", "quel est le chemin de root à error-handler ?", "fetch-api", "—error→"),
    ("nba", "is sort-stats connected to return?", "sort-stats return", "no path from"),
    ("nba", "path from return to root", "return root", "no path from"),
    ("nba", "how many nodes are there?", "", "9 nodes and 6 edges"),
    ("nba", "combien de nœuds de type log-node ?", "", "2 nœud(s)"),
    ("nba", "which types exist?", "", "8 node type(s)|`api-call`"),
    ("nba", "what is a filter?", "filter-active", "of type Filter"),
    ("nba", "quelles feuilles y a-t-il ?", "", "0 main: 7, 1 data-processing: 2"),
    ("nba", "which nodes are not connected?", "sort-stats disconnected-note", "2 of 9 nodes"),
    ("nba", "list nodes of type log-node", "error-handler disconnected-note", "2 node(s)"),
    ("nba", "list all nodes", "root return entry-form display-html", "9 node(s)"),
    ("nba", "what code does error-handler run?", "error-handler", "never show a stack trace"),
    ("nba", "montre le code de disconnected-note", "disconnected-note", "console.log|son type"),
    ("nba", "what is the timeoutMs of fetch-api?", "fetch-api", "`8000`"),
    ("nba", "what is the Accept of fetch-api", "fetch-api", "headers.Accept|application/json"),
    ("nba", "what is the colour of fetch-api", "fetch-api", "no field `colour`|`url`"),
    ("nba", "d'où viennent les données de return ?", "display-html", "Avant"),
    ("nba", "is anything wrong with this workflow?", "", "I checked the graph"),
    ("nba", "y a-t-il des erreurs dans ce graphe ?", "", "J’ai vérifié le graphe"),
    ("nba", "what does the form receive?", "entry-form", "no model has judged"),
    ("nba", "where are errors logged?", "error-handler", "no model has judged"),
    ("order_refund", "what is this workflow about?", "refund-request-form look-up-order",
     "Order refund|15 nodes|3 note(s)"),
    ("order_refund", "What happens after Route decision?",
     "pay-back-customer tell-customer ask-a-colleague", "reject"),
    ("order_refund", "chemin de \"Refund request form\" à ask-a-colleague", "refund-clerk", "—escalate→"),
    ("order_refund", "how does tell-customer reach look-up-order?", "tell-customer", "no path from"),
    ("order_refund", "Which model does the refund clerk use?", "chat-model refund-clerk", "Models"),
    ("order_refund", "what tools does refund-clerk have?", "earlier-refunds refund-policy", "Tools"),
    ("order_refund", "show me the prompt of the refund clerk", "refund-clerk", "You are a refund clerk"),
    ("order_refund", "where does it start?", "refund-request-form", "It begins at"),
    ("order_refund", "que fait ce workflow et où commence-t-il ?", "refund-request-form",
     "Ses notes disent|Il commence à"),
    ("order_refund", "what is refund-clerk?", "chat-model within-30-days", "It uses|It is reached from"),
    ("order_refund", "list the notes", "act decide check-the-request", "3 node(s)"),
    ("greenhouse_climate", "tout ce qui est en aval de sensor-box", "smooth-readings heater-relay frost",
     "lt 4"),
    ("greenhouse_climate", "everything before send-text-message", "alarm one-in-15-minutes alarm-text",
     "Before"),
    ("greenhouse_climate", "which nodes are on sheet Alarms?", "alarm catch sms-gateway-answer", "7 node(s)"),
    ("greenhouse_climate", "what does the function do", "moving-average decide-heating-and-window",
     "Several nodes"),
]  # fmt: skip


@pytest.mark.parametrize(("graph", "question", "cited", "said"), [*QUESTIONS])
async def test_question_is_answered_from_what_the_tools_return(
    graph: str, question: str, cited: str, said: str
) -> None:
    context = nba() if graph == "nba" else await workflow(graph)
    turn = await talk(context, question)
    assert set(cited.split()) <= turn.cited
    for words in said.split("|"):
        assert words in turn.text
    assert turn.cited <= await keys_of(context)
    assert not turn.proposals
    assert all(not result.is_error for result in turn.results if "no node" not in result.text)


@pytest.mark.parametrize(
    "question",
    [
        "how do I delete a node?",
        "comment ajouter un nœud ?",
        "help",
        "aide",
        "Salut",
        "what can you do",
    ],
)
async def test_help_needs_no_tool(question: str) -> None:
    turn = await talk(nba(), question)
    assert not turn.calls
    assert "help" in turn.text or "quotes" in turn.text or "guillemets" in turn.text


async def test_unknown_node_of_a_question_falls_back_to_a_search() -> None:
    turn = await talk(nba(), "what happens after the league answers with an error status?")
    assert {call.name for call in turn.calls} >= {"search_nodes"}
    assert "no model has judged" in turn.text
    assert "fetch-api" in turn.cited


async def test_what_is_nowhere_is_not_made_up() -> None:
    turn = await talk(nba(), "where is the quantum zebra?")
    assert not CITED.search(turn.text)
    assert "no node has the words of" in turn.text


async def test_more_nodes_than_a_list_holds_are_not_passed_over() -> None:
    from datasources.types import Node
    from tests.graphrag.rules.talk import made

    nodes = [Node(key=f"n{i:03}", graph_key="g", type="step") for i in range(80)]
    turn = await talk(await made(nodes), "list all nodes")
    assert "50 + 30 node(s)" in turn.text


def test_schedules_are_said_in_the_language_of_the_question() -> None:
    said = {
        "every day at 02:05": "tous les jours à 02:05",
        "every 2 hours": "toutes les 2 heures",
        "every month (day 1, 15) at 07:00": "tous les mois (jour 1, 15) à 07:00",
        "*/5 * * * *": "*/5 * * * *",
    }
    assert {one: clock_words("fr", one) for one in said} == said
    assert clock_words("en", "every week") == "every week"


SAMPLES = ("order_refund", "greenhouse_climate")
NO_ANSWERS = (
    "no_such_nodes",
    "near_nodes",
    "several_nodes",
    "found",
    "nothing_found",
    "read_failed",
)


def is_good(answer: Answered) -> bool:
    """Return whether an answer names a node or finds nothing wrong, and neither fails
    nor asks back.
    """
    rests_on = "{{node:" in answer.text or answer.says("run_nothing_found")
    return not answer.failed and rests_on and not answer.says(*NO_ANSWERS)


async def failures(setting: Setting, key: str, language: Any, at_most: int) -> list[str]:
    graph = await setting.source.get_graph(key)
    suggested = await suggest(setting.source, graph, language)
    assert graph.name.split()[0] in suggested.summary
    answers = [(text, await asked(setting, key, text)) for text in suggested.questions[:at_most]]
    assert "{{node:" in answers[0][1].text
    return [
        f"{key}: {text}: {answer.text[-400:]}" for text, answer in answers if not is_good(answer)
    ]


@pytest.mark.parametrize("language", [*LANGUAGES])
async def test_three_first_questions_about_samples_have_answers(language: Any) -> None:
    async with asking() as setting:
        keys = [GRAPH]
        for name in SAMPLES:
            keys.append(await imported(setting, name, load_text(f"workflows/{name}.json").encode()))
        found = [text for key in keys for text in await failures(setting, key, language, 3)]
        assert not found, "\n".join(found)


async def test_graph_without_nodes_is_suggested_a_question_about_types() -> None:
    context = await made([])
    suggested = await suggest(context.source, await context.source.get_graph("g"), "en")
    assert suggested.questions == ("Which node types can I use?",)


@needs_published
@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
async def test_first_question_about_every_published_workflow_has_an_answer(language: Any) -> None:
    found: list[str] = []
    for name, file in FILES.items():
        async with asking() as setting:
            key = await imported(setting, name, file.read_bytes())
            found += await failures(setting, key, language, 3)
            name_asked = await asked(
                setting, key, f"What does {(await setting.source.get_graph(key)).name} do?"
            )
            found += [] if is_good(name_asked) else [f"{key}: by its name"]
    print(f"{len(FILES)} workflows, {len(found)} questions without a good answer")
    assert not found, "\n".join(found)


async def test_answer_says_what_it_rests_on_as_a_path_and_as_what_lies_behind() -> None:
    async with asking() as setting:
        path = sources_of((await asked(setting, GRAPH, "path from entry-form to return")).text)
        assert path["path"] == [
            "entry-form",
            "root",
            "fetch-api",
            "filter-active",
            "display-html",
            "return",
        ]
        fails = sources_of((await asked(setting, GRAPH, "what happens if fetch-api fails?")).text)
        assert fails["nodes"][:2] == ["fetch-api", "error-handler"]
        assert set(fails["behind"]) == {"error-handler", "filter-active", "display-html", "return"}


MISSED_AT_MOST = 8


@needs_published
@pytest.mark.slow
async def test_few_of_sixty_first_questions_are_missed() -> None:
    failures = await mark_all()
    assert len(failures) <= MISSED_AT_MOST, "\n".join(failures)
