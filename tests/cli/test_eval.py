"""The `eval` command, over questions and workflows made up here."""

from pathlib import Path
from typing import Any

import pytest

from graphrag.evaluation.knowledge import ABLATION as ABLATED
from graphrag.evaluation.knowledge import ALONE, WITHOUT_GRAPH
from graphrag.evaluation.retrieval_runs import SECOND_LOOK
from graphrag.evaluation.workflows import ABLATION
from tests.cli.conftest import Env, invoke, n8n, printed, write
from tests.graphrag.llm.wire import call_delta, delta, sse, streamed
from tests.support.scripted_http import ScriptedServer

QUESTIONS = [
    {"workflow": "shop.json", "query": "fetch the unpaid invoices", "relevant": ["Fetch invoices"]},
    {"workflow": "shop.json", "query": "send a reminder", "relevant": ["Send reminder"]},
    {
        "workflow": "garden.json",
        "query": "water the tomatoes",
        "relevant": ["Water tomatoes"],
        "note": 7,
    },
]


@pytest.fixture
def questions(folder: Path) -> Path:
    write(folder / "shop.json", n8n("Fetch invoices", "Keep unpaid", "Send reminder", name="Shop"))
    write(folder / "garden.json", n8n("Read moisture", "Water tomatoes", name="Garden"))
    return write(folder / "questions.json", QUESTIONS)


def test_each_mode_is_scored(questions: Path, folder: Path) -> None:
    scores = printed(invoke("eval", questions, "--workflows", folder, "--json"))
    assert list(scores) == ["hybrid", "vector", "text"]
    for score in scores.values():
        assert set(score) == {
            *("recall@5", "recall@10", "mrr", "tokens_per_context", "queries", "graphs"),
            *("intervals", "splits"),
        }
        assert (score["queries"], score["graphs"], score["recall@10"], score["mrr"]) == (
            3,
            2,
            1.0,
            1.0,
        )
        assert score["tokens_per_context"] > 20


def test_the_ablation_scores_every_part(questions: Path, folder: Path) -> None:
    result = invoke("eval", questions, "--workflows", folder, "--ablation", exits=0)
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["retrieval", "recall@5", "recall@10", "MRR", "tokens"]
    assert [line.partition("  ")[0] for line in lines[1 : 1 + len(ABLATION)]] == list(ABLATION)
    assert "95 % interval" in result.stdout
    assert "3 questions about 2 workflows" in result.stderr


def test_the_default_database_is_left_alone(questions: Path, folder: Path) -> None:
    invoke("eval", questions, "--workflows", folder, "--mode", "text")
    assert not (folder / ".nodius").exists()


def test_what_cannot_be_asked_is_left_out_and_said(questions: Path, folder: Path) -> None:
    write(folder / "broken.json", "no JSON")
    more = [
        {"workflow": "broken.json", "query": "q", "relevant": ["x"]},
        {"workflow": "absent.json", "query": "q", "relevant": ["x"]},
        {"workflow": "shop.json", "query": "q", "relevant": ["Pay invoices"]},
    ]
    file = write(folder / "more.json", [*QUESTIONS, *more])
    result = invoke("eval", file, "--workflows", folder, "--mode", "hybrid", exits=0)
    assert "left out: broken.json" in result.stderr
    assert "left out: absent.json" in result.stderr
    assert "no node is called 'Pay invoices'" in result.stderr
    assert "3 questions about 2 workflows" in result.stderr


def test_wrong_paths_and_modes_are_said(questions: Path, folder: Path) -> None:
    assert "No such file" in invoke("eval", folder / "absent.json", "--workflows", folder).stderr
    assert "no such folder" in invoke("eval", questions, "--workflows", folder / "absent").stderr
    wrong = invoke("eval", questions, "--workflows", folder, "--mode", "x")
    assert "'hybrid', 'vector', 'text'" in wrong.stderr
    invoke("eval", questions, exits=2)


def test_questions_about_no_workflow_there_is_are_wrong_use(questions: Path, folder: Path) -> None:
    (folder / "empty").mkdir()
    result = invoke("eval", questions, "--workflows", folder / "empty", exits=2)
    assert "none of the workflows" in result.stderr


KNOWLEDGE: dict[str, Any] = {
    "passages": [
        {
            "id": "p1",
            "title": "Orvin",
            "text": "A painter of Arlon.",
            "mentions": ["Orvin", "Arlon"],
        },
        {
            "id": "p2",
            "title": "The Aare",
            "text": "A river known for floods.",
            "mentions": ["Aare"],
        },
        {"id": "p3", "title": "Bread", "text": "Flour and water."},
    ],
    "facts": [["Aare", "flows through", "Arlon"]],
    "questions": [
        {"question": "Which river did the painter Orvin see?", "passages": ["p1", "p2"]},
        {"question": "What flows through Arlon?", "answers": ["Aare"], "topics": ["Arlon"]},
    ],
}
FIGURES = [
    *("recall@2", "recall@5", "recall@10", "hits@1", "hits@5", "hits@10", "mrr"),
    *("intervals", "splits", "questions"),
]


@pytest.fixture
def knowledge(folder: Path) -> Path:
    return write(folder / "knowledge.json", KNOWLEDGE)


def test_each_mode_of_knowledge_is_scored(knowledge: Path) -> None:
    scores = printed(invoke("eval", knowledge, "--format", "knowledge", "--json"))
    assert list(scores) == ["hybrid", "vector", "text"]
    assert all(list(score) == FIGURES and score["questions"] == 2 for score in scores.values())
    assert scores["hybrid"]["hits@1"] == 1.0


def test_the_ablation_scores_the_passages_alone_too(knowledge: Path) -> None:
    result = invoke("eval", knowledge, "--format", "knowledge", "--ablation", "--json")
    scores = printed(result)
    assert list(scores) == [*(f"{name}{ALONE}" for name in WITHOUT_GRAPH), *ABLATED]
    assert all(score["questions"] == 1 for name, score in scores.items() if name.endswith(ALONE))


def test_triples_and_their_questions_make_a_table(folder: Path) -> None:
    facts = write(folder / "kb.txt", "Aare|flows through|Arlon\nOrvin|lived in|Arlon\n")
    asked = write(
        folder / "qa.txt", "what flows through [Arlon]\tAare\nwho baked [Arlon]\tNobody\n"
    )
    result = invoke(
        "eval", facts, "--format", "triples", "--questions", asked, "--ablation", exits=0
    )
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["retrieval", *FIGURES[:6], "MRR"]
    assert [line.partition("  ")[0] for line in lines[1 : 1 + len(ABLATED)]] == list(ABLATED)
    assert "95 % interval" in result.stdout
    assert "left out: 'who baked Arlon': none of its answers is in the graph" in result.stderr
    assert "1 question about" in result.stderr


def test_openie_outputs_are_taken_as_they_are(folder: Path) -> None:
    docs = [
        {
            "passage": "Orvin\nA painter of Arlon.",
            "extracted_triples": [["Orvin", "of", "Arlon"], ["x"]],
        },
        {"passage": "Aare\nA river.", "extracted_triples": [["Aare", "flows through", "Arlon"]]},
    ]
    facts = write(folder / "openie.json", {"docs": docs, "avg_ent_chars": 3})
    asked = write(
        folder / "q.json", [{"question": "which river saw Orvin", "gold_passages": [0, 1]}]
    )
    result = invoke(
        "eval", facts, "--format", "openie", "--questions", asked, "--mode", "hybrid", "--json"
    )
    assert printed(result)["hybrid"]["recall@2"] == 1.0
    assert "left out: openie.json: 1 triples" in result.stderr


def test_many_reasons_are_counted_not_listed(folder: Path) -> None:
    facts = write(folder / "kb.txt", "Aare|flows through|Arlon\n")
    lines = ["what flows\tAare", *(f"question {i}\tNobody" for i in range(30))]
    asked = write(folder / "qa.txt", "\n".join(lines))
    result = invoke("eval", facts, "--format", "triples", "--questions", asked, "--mode", "text")
    assert result.stderr.count("left out: '") == 10
    assert "left out: 20 more" in result.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--format", "rdf"), "use one of workflows, knowledge, openie, triples"),
        (("--format", "triples"), "--questions FILE is missing"),
        (("--format", "openie"), "--questions FILE is missing"),
        (("--format", "knowledge", "--workflows", "."), "--workflows does not go with"),
        (("--questions", "q.txt"), "give its --format"),
        ((), "--workflows DIR is missing"),
        (("--format", "triples", "--questions", "absent.txt"), "No such file"),
        (
            ("--format", "openie", "--questions", "knowledge.json"),
            "knowledge.json: docs: Field required",
        ),
    ],
)
def test_wrong_use_is_said(knowledge: Path, flags: tuple[str, ...], said: str) -> None:
    assert said in invoke("eval", knowledge, *flags, exits=2).stderr


def test_a_second_look_is_scored_with_the_settings_model(knowledge: Path, env: Env) -> None:
    asked = (
        "eval",
        knowledge,
        "--format",
        "knowledge",
        "--mode",
        "text",
        "--second-look",
        "--json",
    )
    invoke(*asked, exits=2)
    body = sse(
        call_delta(0, "c1", "assess", '{"relevant": [1], "missing": "the Aare"}'),
        delta("tool_calls"),
    )
    with ScriptedServer() as server:
        env(
            NODIUS_PROVIDER="compatible",
            NODIUS_MODEL="some-model",
            NODIUS_LLM_BASE_URL=f"{server.url}/v1",
        )
        server.play(streamed(body), streamed(body))
        result = invoke(*asked)
    scores = printed(result)
    assert list(scores) == ["text", SECOND_LOOK]
    assert scores[SECOND_LOOK]["questions"] == 2
    assert "2 calls of some-model" in result.stderr


def test_cells_count_the_values_of_each_family_that_a_context_shows(folder: Path) -> None:
    condition = {
        "options": {"version": 2, "caseSensitive": True},
        "combinator": "and",
        "conditions": [
            {
                "leftValue": "={{ $json.sum }}",
                "operator": {"type": "number", "operation": "gt"},
                "rightValue": 5,
            }
        ],
    }
    workflow = n8n("Check", name="Shop")
    workflow["nodes"][0] |= {"type": "n8n-nodes-base.if", "parameters": {"conditions": condition}}
    (folder / "flows").mkdir()
    write(folder / "flows" / "shop.json", workflow)
    write(folder / "flows" / "broken.json", [1])
    result = invoke("eval", folder / "flows", "--cells", "--json")
    assert "left out: broken.json" in result.stderr
    assert printed(result)["conditions"] == {
        **{"family": "conditions", "nodes": 1, "values": 2, "shown": 2},
        **{"silent": 0, "share": 1.0},
    }
    assert "conditions" in invoke("eval", folder / "flows", "--cells", exits=0).stdout
    assert "--cells needs a folder" in invoke("eval", folder / "none", "--cells", exits=2).stderr
