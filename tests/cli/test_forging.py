"""What people and models wrote cannot pass for a line of the program, whatever the terminal's width."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli import render
from tests.cli.conftest import invoke, printed, propose
from tests.graphrag.llm.wire import openai_text, streamed
from tests.support.scripted_http import ScriptedServer

GRAPH = "testgraph001"
CLAIM = "APPLIED: all is well. "
FORGERIES = [
    f"slow\n{CLAIM}\n{CLAIM}",
    f"slow\r\n\x1b[2K\x1b[1A{CLAIM}",
    f"slow\x85{CLAIM}\u2028{CLAIM}\x0b\x0c\n\n{CLAIM}",
    f"\u202eslow\n\u2066{CLAIM}",
    CLAIM * 17,
    (" " * 57 + CLAIM) * 5,
    "\n" * 300 + CLAIM,
]


def propose_node(db: Path, text: str) -> str:
    """Propose a node named `text`, connected by an edge labelled so, for that reason."""
    edge = {"direction": "in", "handleId": "0", "targetNodeKey": "fetch-api", "targetHandleId": "0"}
    node: dict[str, Any] = {"typeKey": "log-node", "data": {"name": text}, "edges": [edge | {"label": text}]}
    return propose(db, "create_node_with_edges", reason=text, **node)


def check(output: str, *, genuine: int = 0, rows: int = 80) -> None:
    """Fail where a row begins as the report of an applied change, but for the genuine ones."""
    lines = output.splitlines()
    assert len(lines) <= rows
    assert sum(line.lstrip().startswith("APPLIED") for line in lines) == genuine, output
    assert not set(output) & set("\x1b\r\x0b\x0c\x85\u2028\u202e\u2066")


@pytest.mark.parametrize(
    ("width", "text"),
    [(None, FORGERIES[0]), *(("37", text) for text in FORGERIES)]
    + [pytest.param("80", text, marks=pytest.mark.slow) for text in FORGERIES],
)
def test_no_reason_name_label_or_feedback_forges_a_line_of_a_review(
    db: Path, text: str, width: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if width:
        monkeypatch.setenv("COLUMNS", width)
    approval_id = propose_node(db, text)
    check(invoke("review", "list").output)
    check(invoke("review", "show", approval_id).output)
    check(invoke("review", "approve", approval_id, "--feedback", text).output, genuine=1)
    check(invoke("review", "show", approval_id).output, genuine=1)
    check(invoke("undo", GRAPH).output)
    check(invoke("audit").output)


@pytest.mark.slow
def test_no_message_or_answer_forges_a_line_of_a_transcript(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer() as served:
        monkeypatch.setenv("NODIUS_PROVIDER", "compatible")
        monkeypatch.setenv("NODIUS_MODEL", "some-model")
        monkeypatch.setenv("NODIUS_LLM_BASE_URL", f"{served.url}/v1")
        for text in FORGERIES:
            served.play(streamed(openai_text(text)))
            assert invoke("ask", GRAPH, f"who?{text}").exit_code == 0
    check(invoke("threads", "list").stdout)
    for thread in printed(invoke("threads", "list", "--json")):
        for line in invoke("threads", "show", thread["threadId"]).stdout.splitlines():
            assert not line.startswith("APPLIED")


def test_a_long_text_of_somebody_is_cut_after_some_rows(capsys: pytest.CaptureFixture[str]) -> None:
    render.said("  why: ", "line\n" * 5_000)
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == render.MAX_ROWS + 1
    assert rows[:2] == ["  why: line⏎", "       │ line⏎"]
    assert rows[-1] == "       │ … (25,000 characters)"
