"""Questions about sets are answered without a model, by all nodes of the set and their number."""

import json
import re
from typing import Any

import pytest

from datasources.mock import MemoryDatabase, open_nba
from graphrag.approvals import Approvals, Person
from graphrag.i18n import Language
from graphrag.importers.exchange import import_bytes
from graphrag.llm.base import AssistantMessage, ToolMessage, UserMessage
from graphrag.llm.model_text import complete
from graphrag.rules import RulesProvider
from mock_data import load_text
from tests.graphrag.importers.helpers import n8n, n8n_node
from tests.graphrag.rules.talk import BOX, nba, talk, workflow
from tools.base import ToolContext
from tools.read_tools import READ_TOOLS
from tools.tool_box import ToolBox

LOOSE = "disconnected-note sort-stats"
CODE = "error-handler fetch-api filter-active return sort-stats"
NO_ERRORS = (
    "disconnected-note display-html entry-form error-handler filter-active return root sort-stats"
)
UNCAUGHT = (
    "ask-a-colleague chat-model decision-format earlier-refunds order-not-found pay-back-customer"
    " refund-clerk refund-policy refund-request-form refuse-late-request route-decision tell-customer"
    " within-30-days work-out-refund-amount"
)
MQTT = "greenhouse-broker heater-relay roof-window-motor sensor-box"
LINKS, FUNCTIONS = "alarm frost too-hot", "decide-heating-and-window moving-average"
PUBLISHERS = "heater-relay roof-window-motor"


@pytest.mark.parametrize(
    ("graph", "question", "keys"),
    [
        ("nba", "Which nodes are not connected?", LOOSE),
        ("nba", "How many nodes are not connected to anything?", LOOSE),
        ("nba", "List all isolated nodes", LOOSE),
        ("nba", "Which nodes have code?", CODE),
        ("nba", "How many nodes have code?", CODE),
        ("nba", "all nodes of type filter", "filter-active"),
        ("nba", "Which nodes have no error output?", NO_ERRORS),
        ("nba", "How many nodes are without an error path?", NO_ERRORS),
        ("nba", "Quels nœuds ne sont reliés à rien ?", LOOSE),
        ("nba", "Combien de nœuds sont isolés ?", LOOSE),
        ("nba", "Combien de nœuds ont du code ?", CODE),
        ("nba", "Quels nodes n'ont pas de sortie d'erreur ?", NO_ERRORS),
        ("nba", "Tous les nœuds de type filter", "filter-active"),
        ("refund", "Which steps have no error path?", UNCAUGHT),
        ("refund", "How many nodes have no error output?", UNCAUGHT),
        ("refund", "List all nodes without error handling", UNCAUGHT),
        ("refund", "all nodes of type slack", "ask-a-colleague"),
        ("refund", "Which nodes use Slack?", "ask-a-colleague"),
        ("refund", "everything that uses Postgres", "earlier-refunds"),
        ("refund", "Quels nœuds n'ont pas de sortie d'erreur ?", UNCAUGHT),
        ("refund", "Tous les nœuds sans gestion d'erreur", UNCAUGHT),
        ("refund", "Combien de nœuds n'ont aucune sortie d'erreur ?", UNCAUGHT),
        ("greenhouse", "all nodes of type mqtt out", PUBLISHERS),
        ("greenhouse", "How many mqtt nodes are there?", MQTT),
        ("greenhouse", "List all mqtt nodes", MQTT),
        ("greenhouse", "Which nodes are functions?", FUNCTIONS),
        ("greenhouse", "all link nodes", LINKS),
        ("greenhouse", "which nodes call sms.example?", "send-text-message"),
        ("greenhouse", "Which nodes are not connected?", "greenhouse-broker"),
        ("greenhouse", "Combien de nœuds mqtt y a-t-il ?", MQTT),
        ("greenhouse", "Quels nœuds sont des fonctions ?", FUNCTIONS),
        ("greenhouse", "Tous les nœuds de type function", FUNCTIONS),
        ("greenhouse", "Quels nœuds ne sont pas connectés ?", "greenhouse-broker"),
        ("greenhouse", "Quels nœuds contiennent du code ?", f"alarm-text {FUNCTIONS}"),
    ],
)
async def test_a_set_question_is_answered_by_the_whole_set_and_its_number(
    graph: str, question: str, keys: str
) -> None:
    names = {"refund": "order_refund", "greenhouse": "greenhouse_climate"}
    context = nba() if graph == "nba" else await workflow(names[graph])
    language: Language = "fr" if re.search("[œ]|n'ont", question) else "en"
    turn = await talk(context, question, language=language)
    assert turn.cited == set(keys.split()), turn.text
    assert re.search(rf"\b{len(keys.split())} (of \d+ nodes|nœud\(s\) sur \d+) ", turn.text), (
        turn.text
    )


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("How many function nodes are there?", 2),
        ("Combien de nœuds de type function ?", 2),
        ("How many nodes are disabled?", 0),
    ],
)
async def test_a_number_is_given_also_for_one_type_and_for_none(question: str, count: int) -> None:
    turn = await talk(await workflow("greenhouse_climate"), question)
    assert re.search(rf"\b{count} (node|nœud|of 22 nodes)", turn.text), turn.text


async def test_a_long_list_says_how_many_more_there_are() -> None:
    nodes = [n8n_node(f"Say {i}", "n8n-nodes-base.slack") for i in range(150)]
    context = await _all_graphs(("many", n8n([*nodes, n8n_node("Set", "n8n-nodes-base.set")], {})))
    turn = await talk(context, "Which nodes use Slack?")
    assert "150 of 151 nodes" in turn.text
    assert "And 50 more." in turn.text


async def _all_graphs(*graphs: tuple[str, Any]) -> ToolContext:
    database = MemoryDatabase()
    person = Person("eve", "editor", "test")
    source = database.source("test")
    approvals = Approvals(source, database.records("test"))
    for key, raw in graphs:
        content = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
        await import_bytes(approvals, content, person, file_name=f"{key}.json", graph_key=key)
    return ToolContext(source=source, graph_key=graphs[0][0], role="editor")


@pytest.mark.parametrize(
    ("question", "nodes"),
    [
        ("Which nodes of all graphs use Slack?", {"refund": 1, "shop": 2}),
        ("How many slack nodes are there in all workflows?", {"refund": 1, "shop": 2}),
        ("Which graphs use Slack?", {"refund": 1, "shop": 2}),
        ("Quels nœuds de tous les graphes utilisent Slack ?", {"refund": 1, "shop": 2}),
        ("Which nodes of all graphs are not connected?", {"shop": 3}),
    ],
)
async def test_a_set_over_all_graphs_is_whole(question: str, nodes: dict[str, int]) -> None:
    shop = [n8n_node(name, "n8n-nodes-base.slack") for name in ("Say", "Tell")]
    shop = n8n([*shop, n8n_node("Keep", "n8n-nodes-base.set")], {})
    refund = load_text("workflows/order_refund.json").encode()
    context = await _all_graphs(("refund", refund), ("shop", shop))
    language: Language = "fr" if "œ" in question else "en"
    for box in (BOX, ToolBox([tool for tool in READ_TOOLS if tool.name == "search_workspace"])):
        text = await _asked(box, context, question, language)
        assert {key: text.count(f"{{{{graph:{key}}}}}") for key in nodes} == nodes, text
        assert re.search(rf"\b{sum(nodes.values())} (of|nœud\(s\) sur) ", text), text


async def _asked(box: ToolBox, context: ToolContext, question: str, language: Language) -> str:
    messages: list[Any] = [UserMessage(content=question)]
    for _ in range(6):
        answer = await complete(RulesProvider(), messages, box.schemas("editor"))
        if not answer.tool_calls:
            return answer.text
        messages.append(AssistantMessage(content=answer.text, tool_calls=answer.tool_calls))
        for call in answer.tool_calls:
            result = await box.run(call.name, call.arguments, context)
            messages.append(ToolMessage(call_id=call.id, name=call.name, content=result.text))
    raise AssertionError("it does not end")


async def test_a_graph_that_is_too_large_for_lists_is_searched() -> None:
    context = ToolContext(source=open_nba().source("test"), graph_key="testgraph001", role="editor")
    few = ToolContext(
        source=context.source,
        graph_key=context.graph_key,
        role="editor",
        limits=type(context.limits)(whole_graph_nodes=8),
    )
    assert "of 9 nodes" in (await talk(context, "Which nodes have code?")).text
    assert "of 9 nodes" not in (await talk(few, "Which nodes have code?")).text
