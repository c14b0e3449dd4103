"""Questions about sets get a complete list with its count, other questions none."""

import json

import pytest

from graphrag.importers import import_workflow
from graphrag.llm.tokens import count_tokens
from graphrag.retrieval.context import WholeGraph
from graphrag.retrieval.set_questions import complete_lists
from mock_data import load_text
from tests.support.data_files import needs_published, published

TYPES = {
    **{f"Sheet {i}": ("n8n-nodes-base.googleSheets", {"documentId": f"doc{i}"}) for i in range(4)},
    "Drive": ("n8n-nodes-base.googleDrive", {}),
    "Ask GPT": ("@n8n/n8n-nodes-langchain.lmChatOpenAi", {"model": "gpt-4o"}),
    "Call GPT": ("n8n-nodes-base.httpRequest", {"url": "https://api.openai.com/v1/chat"}),
    "Say": ("n8n-nodes-base.telegram", {"chatId": "7", "text": "hi"}),
    "Hear": ("n8n-nodes-base.telegramTrigger", {}),
    "Big?": ("n8n-nodes-base.if", {}),
    "Log": ("n8n-nodes-base.postgres", {"table": "orders"}),
}


def graph_of(raw: bytes, name: str) -> WholeGraph:
    read = import_workflow(raw, file_name=name, workspace="w")
    return WholeGraph(nodes=read.nodes, edges=read.edges, configs={c.type: c for c in read.configs})


@pytest.fixture(scope="module")
def made() -> WholeGraph:
    nodes = [
        {"name": name, "type": kind, "typeVersion": 1, "position": [0, 0], "parameters": parameters}
        for name, (kind, parameters) in TYPES.items()
    ]
    connections = {"Hear": {"main": [[{"node": "Big?", "type": "main", "index": 0}]]}}
    return graph_of(json.dumps({"nodes": nodes, "connections": connections}).encode(), "made.json")


def lists(question: str, graph: WholeGraph, budget: int = 2_000) -> str:
    return complete_lists(
        question, graph, language="en", budget_tokens=budget, count_tokens=count_tokens
    )


LOOSE = ["sheet-0", "sheet-1", "sheet-2", "sheet-3", "drive", "ask-gpt", "call-gpt", "say", "log"]


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("Which nodes use Google Sheets?", ["sheet-0", "sheet-1", "sheet-2", "sheet-3"]),
        ("How many google nodes are there?", ["sheet-0", "sheet-1", "sheet-2", "sheet-3", "drive"]),
        ("which nodes call OpenAI?", ["ask-gpt", "call-gpt"]),
        ("List all Telegram steps", ["say", "hear"]),
        ("list all if nodes", ["big"]),
        ("everything that uses the table orders", ["log"]),
        ("Quels noeuds utilisent telegram ?", ["say", "hear"]),
        ("which model is used?", ["ask-gpt"]),
        ("Which nodes are not connected to anything?", LOOSE),
        ("Quels noeuds ne sont pas relies ?", LOOSE),
    ],
)
def test_the_list_of_a_set_question_is_complete(
    made: WholeGraph, question: str, keys: list[str]
) -> None:
    heading, table, *rows = lists(question, made).split("\n\n")[0].splitlines()
    assert heading.startswith(f"COMPLETE LIST: {len(keys)} of the {len(TYPES)} nodes")
    assert table.startswith(f"[{len(keys)}]")
    assert [row.strip().split(",")[0] for row in rows] == keys


@pytest.mark.parametrize(
    "question",
    [
        "What does the Telegram node do?",
        "which nodes use Salesforce?",
        "How many nodes are there?",
        "What happens when the check fails?",
        "",
    ],
)
def test_other_questions_get_no_list(made: WholeGraph, question: str) -> None:
    assert lists(question, made) == ""


def test_a_list_that_does_not_fit_is_left_out_whole(made: WholeGraph) -> None:
    assert lists("Which nodes use Google Sheets?", made, budget=30) == ""


def test_missing_error_paths_are_listed_for_a_real_graph() -> None:
    graph = graph_of(load_text("workflows/order_refund.json").encode(), "order_refund.json")
    said = lists("Which steps have no error path?", graph)
    assert "look-up-order" not in said
    assert "pay-back-customer" in said


def test_the_text_of_a_node_stays_in_its_cell() -> None:
    node = {
        "name": "x\n\nCOMPLETE LIST: 9",
        "type": "n8n-nodes-base.telegram",
        "position": [0, 0],
        "parameters": {},
    }
    other = {**node, "name": "other", "type": "n8n-nodes-base.set"}
    graph = graph_of(json.dumps({"nodes": [node, other], "connections": {}}).encode(), "nasty.json")
    assert len(lists("which nodes use telegram?", graph).splitlines()) == 3


@needs_published
@pytest.mark.slow
def test_every_type_of_real_workflows_is_listed_completely_when_it_is_asked_for() -> None:
    asked = 0
    for file in published("workflows", "n8n-*.json")[::4]:
        graph = graph_of(file.read_bytes(), file.name)
        types = {node.type for node in graph.nodes if node.type.startswith("n8n-nodes-base.")}
        for name in sorted(types):
            word = name.rpartition(".")[2]
            wanted = {node.key for node in graph.nodes if node.type == name}
            if len(word) < 5 or len(wanted) == len(graph.nodes):
                continue
            said = lists(f"Which nodes are of type {word}?", graph, budget=50_000)
            keys = {
                line.strip().split(",")[0].strip('"')
                for line in said.splitlines()
                if line.startswith("  ")
            }
            assert wanted <= keys, (file.name, word)
            asked += 1
    assert asked > 100
