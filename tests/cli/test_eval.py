"""The `eval` command, over questions and workflows made up here."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphrag.evaluation.workflows import ABLATION
from tests.cli.conftest import invoke, n8n, printed, write

QUESTIONS = [
    {"workflow": "shop.json", "query": "fetch the unpaid invoices", "relevant": ["Fetch invoices"]},
    {"workflow": "shop.json", "query": "send a reminder", "relevant": ["Send reminder"]},
    {"workflow": "garden.json", "query": "water the tomatoes", "relevant": ["Water tomatoes"], "note": 7},
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
        assert (score["queries"], score["graphs"], score["recall@10"], score["mrr"]) == (3, 2, 1.0, 1.0)
        assert score["tokens_per_context"] > 20


def test_the_ablation_scores_every_part(questions: Path, folder: Path) -> None:
    result = invoke("eval", questions, "--workflows", folder, "--ablation")
    assert result.exit_code == 0
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
    result = invoke("eval", file, "--workflows", folder, "--mode", "hybrid")
    assert result.exit_code == 0
    assert "left out: broken.json" in result.stderr
    assert "left out: absent.json" in result.stderr
    assert "no node is called 'Pay invoices'" in result.stderr
    assert "3 questions about 2 workflows" in result.stderr


def test_wrong_paths_and_modes_are_said(questions: Path, folder: Path) -> None:
    assert "No such file" in invoke("eval", folder / "absent.json", "--workflows", folder).stderr
    assert "no such folder" in invoke("eval", questions, "--workflows", folder / "absent").stderr
    wrong = invoke("eval", questions, "--workflows", folder, "--mode", "x")
    assert "'hybrid', 'vector', 'text'" in wrong.stderr
    assert invoke("eval", questions).exit_code == 2


def test_questions_about_no_workflow_there_is_are_wrong_use(questions: Path, folder: Path) -> None:
    (folder / "empty").mkdir()
    result = invoke("eval", questions, "--workflows", folder / "empty")
    assert result.exit_code == 2
    assert "none of the workflows" in result.stderr
