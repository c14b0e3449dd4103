"""`nodius agents`: documents checked with every error, stored, run, tried; exit codes and JSON."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Env, invoke
from tests.cli.test_chat import GRAPH, calls, says, server, typed
from tests.graphrag.agents.managing import document
from tests.support.agent_chats import agent_document
from tests.support.scripted_http import ScriptedServer


@pytest.fixture(autouse=True)
def place(tmp_path: Path, env: Env) -> Path:
    env(
        NODIUS_DB=f"sqlite:{tmp_path / 'agents.db'}",
        NODIUS_PROVIDER="offline",
        NODIUS_EMBEDDINGS="none",
    )
    return tmp_path


def written(place: Path, name: str = "desk.json", **changes: Any) -> str:
    file = place / name
    file.write_text(json.dumps(document(**changes)), encoding="utf-8")
    return str(file)


def said(*command: str, code: int = 0) -> Any:
    done = invoke("agents", *command, "--json", exits=code)
    return json.loads(done.stdout)


def test_an_agent_goes_from_a_file_to_running_and_away(place: Path) -> None:
    file = written(place, name="${CITY}".replace("${CITY}", "desk.json"))
    invoke("agents", "apply", file, exits=0)
    assert said("list")["agents"][0]["state"] == "stopped"
    assert said("start", "helpdesk")["state"] == "running"
    yaml = place / "two.yaml"
    yaml.write_text(
        'version: "2.0"\nagent: {id: helpdesk, name: "Desk ${CITY}"}\n'
        "session: {mode: inline, instructions: Help.}\n"
    )
    invoke("agents", "apply", str(yaml), exits=2)
    [applied] = said(
        "apply", str(yaml), "--var", "CITY=Paris", "--base-url", "https://api.example.com"
    )
    assert (applied["version"], applied["name"], applied["state"]) == (2, "Desk Paris", "running")
    assert (
        json.loads(invoke("agents", "show", "helpdesk").stdout)["base_url"]
        == "https://api.example.com"
    )
    assert said("show", "helpdesk", "--version", "1")["agent"]["name"] == "Help desk"
    assert said("rollback", "helpdesk", "1")["version"] == 1
    assert said("health")[0]["health"] == "ok"
    invoke("agents", "delete", "helpdesk", exits=1)
    assert said("stop", "helpdesk", "--now")["state"] == "stopped"
    assert said("delete", "helpdesk")["deleted"] is True
    invoke("agents", "list", exits=3)
    invoke("agents", "start", "helpdesk", exits=3)


def test_check_says_where_what_and_what_is_allowed_and_makes_no_database(place: Path) -> None:
    wrong = written(place, "wrong.json", graphs=["nowhere"], chat={"temperature": 9})
    right = written(place, "right.json")
    done = invoke("agents", "check", wrong, right, exits=2)
    assert f"{right}: valid" in done.stdout
    assert "chat.temperature" in done.stdout
    assert not (place / "agents.db").exists()
    found = said("check", wrong, right, code=2)
    assert [(one["ok"], [e["where"] for e in one["errors"]]) for one in found] == [
        (False, ["chat.temperature"]),
        (True, []),
    ]
    invoke("agents", "check", right, exits=0)
    invoke("agents", "check", "-", typed=json.dumps(document()), exits=0)
    assert (
        "temperature"
        in invoke("agents", "check", "-", typed=Path(wrong).read_text(), exits=2).stdout
    )
    assert "none.json" in invoke("agents", "check", str(place / "none.json"), exits=2).stderr
    assert said("schema")["$id"] == "nodius-agent/2.0"


def test_of_several_files_those_in_order_are_applied_and_said(place: Path) -> None:
    broken = written(place, "broken.json", graphs=[7])
    [applied] = said("apply", broken, written(place), "--start", code=2)
    assert (applied["id"], applied["state"]) == ("helpdesk", "running")


def test_what_an_agent_lacks_is_said_when_it_is_started(place: Path) -> None:
    invoke("agents", "apply", written(place, graphs=["nowhere"]), exits=0)
    assert "graphs.0" in invoke("agents", "start", "helpdesk", exits=2).stderr
    invoke("agents", "health", exits=1)
    assert said("list")["agents"][0]["health"] == "failed"
    found = {each["name"]: each for each in json.loads(invoke("doctor", "--json").stdout)}
    assert found["agents"]["status"] == "error"
    assert "helpdesk" in found["agents"]["detail"]


def test_a_tool_is_tried_without_sending(place: Path, env: Env) -> None:
    env(NODIUS_SECRET_KEY="s3cret-of-the-api")
    tool = {
        "type": "http",
        "url": "https://api.example.com/orders",
        "params": {"number": "{{args.number}}"},
        "headers": {"Authorization": "Bearer {{secret.KEY}}"},
    }
    uses = [{"name": "KEY", "hosts": ["api.example.com"]}]
    invoke("agents", "apply", written(place, tools={"look": tool}, secrets=uses), exits=0)
    done = invoke("agents", "try", "helpdesk", "look", "--args", '{"number": 42}')
    [request] = json.loads(done.stdout)["requests"]
    assert request["url"] == "https://api.example.com/orders?number=42"
    assert "s3cret" not in done.output
    invoke("agents", "try", "helpdesk", "other", exits=3)
    invoke("agents", "try", "helpdesk", "look", "--args", "[]", exits=2)


def test_a_list_that_cannot_be_used_changes_nothing(place: Path) -> None:
    source = place / "customers.yaml"
    source.write_text("list: {url: 'http://169.254.169.254/x'}\ntemplate: t.json\nid: $.id\n")
    written(place, "t.json")
    report = said("sync", str(source), code=1)
    assert "address" in report["error"]
    assert said("list", code=3)["agents"] == []
    source.write_text("list: {url: 'https://api.example.com/x'}\nid: $.id\n")
    invoke("agents", "sync", str(source), exits=1)


__all__ = ["server"]


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """An agent that is started; its id."""
    document = agent_document(
        graphs=[GRAPH], lifecycle={"outcome_rules": [{"flag": None, "outcome": "talked"}]}
    )
    file = tmp_path / "desk.json"
    file.write_text(json.dumps(document))
    invoke("agents", "apply", str(file), "--start", exits=0)
    return "desk"


def sent(server: ScriptedServer, number: int) -> dict[str, Any]:
    return json.loads(server.requests[number].body)


@pytest.mark.usefixtures("db")
def test_an_agent_answers_with_its_prompt_and_tools_and_hangs_up(
    server: ScriptedServer, agent: str
) -> None:
    server.play(says("Hello, what can I do?"), calls("bye"), says("Goodbye."))
    result = typed(
        "hello",
        "that was all",
        command=("chat", "--agent", agent, "--caller", "+33612345678"),
        exits=0,
    )
    assert "Hello, what can I do?" in result.stdout
    assert "agent_hung_up" in result.stderr
    assert "talked" in result.stderr
    first = sent(server, 0)
    assert "You are at the desk of Desk." in first["messages"][0]["content"]
    assert {"bye", "search_nodes"} <= {tool["function"]["name"] for tool in first["tools"]}


@pytest.mark.usefixtures("db")
def test_a_person_ends_the_conversation_and_none_takes_it_up(
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


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ((), 2, "name a graph"),
        (("--agent", "nobody"), 3, "there is no agent nobody"),
        (("--agent", "helpdesk", "--caller", "12"), 2, "'12' is no number"),
    ],
)
def test_what_cannot_begin_says_why(
    agent: str, options: tuple[str, ...], code: int, said: str
) -> None:
    assert said in invoke("chat", *options, typed="hello\n", exits=code).output


def test_what_twilio_is_told_of_an_agent_is_printed_to_be_pasted(place: Path, env: Env) -> None:
    env(NODIUS_PUBLIC_URL="https://voice.example.com")
    voice = {"destinations": {"desk": {"number": "+33111111111"}}, "fallback": "desk"}
    invoke("agents", "apply", written(place, voice=voice), exits=0)
    found = said("twilio", "helpdesk")
    assert found["webhook"] == "https://voice.example.com/voice/default/helpdesk"
    assert "<Number>+33111111111</Number></Dial><Say" in found["fallbackTwiml"]
    assert found["fallbackTwiml"] in invoke("agents", "twilio", "helpdesk").stdout
