"""`nodius chat --agent`: a conversation with an agent at a terminal, with a served model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import invoke
from tests.cli.test_chat import GRAPH, calls, says, server, typed
from tests.support.agent_chats import agent_document
from tests.support.scripted_http import ScriptedServer

__all__ = ["server"]

pytestmark = pytest.mark.usefixtures("db")


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """An agent that is started; its id."""
    document = agent_document(
        graphs=[GRAPH], lifecycle={"outcome_rules": [{"flag": None, "outcome": "talked"}]}
    )
    file = tmp_path / "desk.json"
    file.write_text(json.dumps(document))
    applied = invoke("agents", "apply", str(file), "--start")
    assert applied.exit_code == 0, applied.output
    return "desk"


def sent(server: ScriptedServer, number: int) -> dict[str, Any]:
    return json.loads(server.requests[number].body)


def test_an_agent_answers_with_its_own_prompt_and_tools_and_hangs_up(
    server: ScriptedServer, agent: str
) -> None:
    server.play(says("Hello, what can I do?"), calls("bye"), says("Goodbye."))
    result = typed("hello", "that was all", command=("chat", "--agent", agent, "--caller", "+33612345678"))
    assert result.exit_code == 0, result.output
    assert "Hello, what can I do?" in result.stdout
    assert "agent_hung_up" in result.stderr
    assert "talked" in result.stderr
    first = sent(server, 0)
    assert "You are at the desk of Desk." in first["messages"][0]["content"]
    assert {"bye", "search_nodes"} <= {tool["function"]["name"] for tool in first["tools"]}


def test_a_person_ends_the_conversation_and_it_is_not_taken_up_again(
    server: ScriptedServer, agent: str
) -> None:
    server.play(says("Hello."))
    left = typed("hello", command=("chat", GRAPH, "--agent", agent))
    found = re.search(r"--thread (\w+)", left.stderr)
    assert found, left.stderr
    again = ("chat", "--thread", found[1])
    ended = typed("/end", command=again)
    assert "ended_by_person" in ended.stderr, ended.output
    late = typed("hello?", command=again)
    assert "begin another one" in late.stderr, late.output


@pytest.mark.parametrize(
    ("options", "code"), [((), 2), (("--agent", "nobody"), 3), (("--agent", "desk", "--caller", "12"), 2)]
)
def test_what_cannot_begin_says_why(agent: str, options: tuple[str, ...], code: int) -> None:
    assert invoke("chat", *options, typed="hello\n").exit_code == code
