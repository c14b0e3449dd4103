"""Questions in English and French on sample graphs: what is cited and said, through real tools."""

from __future__ import annotations

from graphrag.rules.graph_answers import clock_words
from tests.graphrag.rules.talk import CITED, keys_of, nba, talk, workflow
from tests.support.each_row import each_row

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
    ("nba", "which nodes are not connected?", "sort-stats disconnected-note", "Without any edge"),
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


@each_row("graph, question, cited, said", QUESTIONS)
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


@each_row(
    "question",
    ["how do I delete a node?", "comment ajouter un nœud ?", "help", "aide", "Salut", "what can you do"],
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
    assert "found nothing" in turn.text


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
