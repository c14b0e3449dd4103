"""The life of an automation on the command line, without a server and without a model."""

import asyncio
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.common import EXIT_FAILED, EXIT_NOTHING, EXIT_USAGE
from datasources.base import Record
from datasources.sqlite import SqliteDatabase
from datasources.types import ROOT_WORKSPACE
from graphrag.automations import runner, session_events
from graphrag.automations.drafts import MAX_DATA_BYTES, AutomationDraft
from graphrag.automations.last_seen import mark_tick
from graphrag.leases import now_ms
from graphrag.sessions.machine import SessionLimits
from tests.cli.conftest import invoke, printed
from tests.support.service import GRAPH

FLOW: dict[str, Any] = {
    "name": "Orders",
    "nodes": [
        {
            "id": str(number),
            "name": name,
            "type": f"n8n-nodes-base.{kind}",
            "position": [200 * number, 0],
            "parameters": {},
        }
        for number, (name, kind) in enumerate(
            [("Start", "manualTrigger"), ("Get", "set"), ("Get", "set")]
        )
    ],
    "connections": {"Start": {"main": [[{"node": "Get", "type": "main", "index": 0}]]}},
}


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The key of a graph in which two nodes have one name; runs end without waiting
    for an objection.
    """
    file = tmp_path / "flow.json"
    file.write_text(json.dumps(FLOW))
    monkeypatch.setenv("NODIUS_DB", f"sqlite:{tmp_path / 'graphs.db'}")
    monkeypatch.setenv("NODIUS_EMBEDDINGS", "none")
    monkeypatch.setattr(runner, "SessionLimits", lambda: SessionLimits(confirm_ms=0))
    return printed(invoke("import", "--json", file))[0]["graph"]


@pytest.mark.slow
def test_an_automation_lives_from_its_template_to_its_removal(graph: str) -> None:
    invoke("automations", "list", exits=EXIT_NOTHING)
    added = invoke(
        "automations",
        "add",
        graph,
        "--template",
        "nightly-check",
        "--timezone",
        "Europe/Paris",
        exits=0,
    )
    assert "at 02:00 every day, Europe/Paris. Next: " in added.stdout
    [listed] = printed(invoke("automations", "list", "--json"))
    key = listed["id"]
    assert (listed["name"], listed["mode"]) == ("Nightly check", "propose")
    assert len(printed(invoke("automations", "next", key, "-n", "3", "--json"))) == 3

    tried = printed(invoke("automations", "try", key, "--json", exits=0))
    assert (tried["run"]["phase"], len(tried["proposals"])) == ("waiting_validation", 1)
    assert "would propose: " in invoke("automations", "try", key).stdout
    invoke("review", "list", exits=EXIT_NOTHING)
    invoke("automations", "runs", key, exits=EXIT_NOTHING)

    first = invoke("automations", "run", key, "--wait", "--json", exits=0)
    run = printed(first)
    assert run["phase"] == "waiting_validation", run
    [proposal] = printed(invoke("review", "list", "--json"))
    assert proposal["threadId"] == run["sessionId"]
    assert printed(invoke("automations", "list", "--json"))[0]["waiting"] == 1
    assert "1 proposal" in invoke("sessions", "show", run["sessionId"]).stdout
    assert "--supersede" in invoke("automations", "run", key, exits=EXIT_FAILED).output

    answered = invoke("sessions", "answer", run["sessionId"], "--approve", "--json")
    assert [each["status"] for each in printed(answered)["decided"]] == ["applied"]
    invoke("automations", "run-due", "--json", exits=0)
    [ended] = printed(invoke("automations", "runs", key, "--json"))
    assert (ended["phase"], ended["endReason"]) == ("completed", "COMPLETED"), ended
    invoke("sessions", "stop", run["sessionId"], exits=EXIT_FAILED)
    invoke("sessions", "list", "--open", exits=EXIT_NOTHING)
    names = [node["data"]["name"] for node in printed(invoke("export", graph, "--json"))["nodes"]]
    assert sorted(names) == ["Get", "Get 2", "Start"]

    paused = printed(invoke("automations", "pause", key, "--json"))
    assert (paused["enabled"], paused["pausedReason"]) == (False, "person")
    invoke("automations", "next", key, exits=EXIT_NOTHING)
    invoke("automations", "run", key, exits=EXIT_FAILED)
    assert printed(invoke("automations", "enable", key, "--json"))["enabled"]
    edited = invoke("automations", "edit", key, "--cron", "0 9 * * 1", "--name", "Weekly check")
    assert edited.stdout.startswith(f"Weekly check ({key}): at 09:00 on Monday, Europe/Paris.")
    assert "check_graph" in invoke("automations", "show", key).stdout
    invoke("automations", "remove", key, exits=0)
    invoke("automations", "show", key, exits=EXIT_NOTHING)
    invoke("sessions", "show", run["sessionId"], exits=0)


def test_doctor_says_whether_somebody_looks_after_automations(graph: str) -> None:
    def said() -> dict[str, Any] | None:
        found = printed(invoke("doctor", "--json"))
        return next((one for one in found if one["name"] == "automations"), None)

    assert said() is None, "there is none"
    invoke("automations", "add", graph, "N", "-m", "x", "--cron", "0 2 * * *", exits=0)
    alone = said()
    assert alone["status"] == "warning"
    assert "1 automations, 0 late" in alone["detail"]

    async def tick() -> None:
        async with SqliteDatabase(
            Path(os.environ["NODIUS_DB"].removeprefix("sqlite:"))
        ) as database:
            await mark_tick(database.records(ROOT_WORKSPACE), "here", now_ms())

    asyncio.run(tick())
    tended = said()
    assert tended["status"] == "ok"


def test_what_is_wrong_is_said_with_its_exit_code(graph: str) -> None:
    for arguments, code, said in (
        (("add", graph), EXIT_USAGE, "a name"),
        (("add", graph, "N", "-m", "x", "--cron", "* * * * *"), EXIT_FAILED, "at least 300"),
        (
            ("add", graph, "N", "-m", "x", "--timezone", "Europe/Pariss"),
            EXIT_FAILED,
            "Europe/Paris",
        ),
        (("add", graph, "N", "-m", "x", "--at", "tomorrow"), EXIT_USAGE, "2026-11-23T02:00+01:00"),
        (("add", graph, "N", "-m", "x", "--use", "gett"), EXIT_FAILED, "get"),
        (("add", graph, "N"), EXIT_FAILED, "empty"),
        (("add", "nowhere", "N", "-m", "x"), EXIT_NOTHING, "nowhere"),
        (("add", graph, "--template", "weekly"), EXIT_USAGE, "nightly-check"),
        (("edit", "au_0"), EXIT_USAGE, "--cron"),
        (("show", "au_0"), EXIT_NOTHING, "au_0"),
    ):
        result = invoke("automations", *arguments)
        assert (result.exit_code, said in result.output) == (code, True), (arguments, result.output)
    invoke("sessions", "show", "auto/au_0/1", exits=EXIT_NOTHING)
    invoke("sessions", "answer", "auto/au_0/1", exits=EXIT_USAGE)


def test_a_message_with_blocks_is_stored_with_relative_periods(graph: str) -> None:
    added = invoke(
        *(
            "automations",
            "add",
            graph,
            "Watch",
            "-m",
            "What changed?",
            "--use",
            "get",
            "--since",
            "-1_DAY",
        ),
        *("--at", "2099-01-01T02:00+00:00", "--json"),
        exits=0,
    )
    assert printed(added)["schedule"] == "on 1 date"
    said = printed(invoke("automations", "show", printed(added)["id"], "--json"))["messages"]
    assert said[0].startswith("What changed?")
    assert "[" in said[0]


EVENT = "order.failed"


def waiting() -> str:
    """Add an automation that waits for the event; return its id."""
    added = invoke(
        "automations",
        "add",
        GRAPH,
        "Orders",
        "-m",
        "describe fetch-api",
        "--event",
        EVENT,
        "--json",
    )
    return printed(added)["id"]


def run_of(db: Path, key: str) -> dict[str, Any]:
    """Return a run as it is stored."""

    async def read() -> Record | None:
        async with SqliteDatabase(db) as database:
            return await database.records("default").get("session", key)

    found = asyncio.run(read())
    return dict(found.data)


def test_an_event_starts_what_waits_for_it_once_for_a_key_with_its_data(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = partial(SessionLimits, confirm_ms=10)  # an end is announced for five seconds
    monkeypatch.setattr(session_events, "SessionLimits", soon)
    automation = waiting()
    given = ("event", EVENT, "--key", "A-17", "--data", '{"order": "A-17"}')
    [started] = printed(invoke(*given, "--json"))["started"]
    assert started["automationId"] == automation
    run = run_of(db, started["sessionId"])
    assert run["session"]["trigger"] == "event"
    assert any(
        '"order": "A-17"' in str(message["content"]) for message in run["conversationHistory"]
    )
    again = printed(invoke(*given, "--json"))
    assert (again["started"], again["repeated"]) == ([started], True)
    assert f"{started['sessionId']} of {automation} was started" in " ".join(
        invoke(*given).output.split()
    )
    invoke("automations", "run-due", "--json", exits=0)
    assert run_of(db, started["sessionId"])["session"] != run["session"]  # it was worked on


def test_what_starts_nothing_says_why(db: Path, tmp_path: Path) -> None:
    nobody = invoke("event", EVENT)
    assert (nobody.exit_code, "no automation waits" in nobody.output) == (EXIT_NOTHING, True)
    automation = waiting()
    invoke("automations", "pause", automation)
    paused = invoke("event", EVENT, "--json", exits=EXIT_FAILED)
    [refused] = printed(paused)["refused"]
    assert (refused["automationId"], refused["code"]) == (automation, "conflict")
    assert "paused" in invoke("event", EVENT).output
    invoke("event", EVENT, "--data", "{", exits=EXIT_USAGE)
    large = json.dumps("x" * MAX_DATA_BYTES)
    wrongs = {
        "name": ("Order failed",),
        "data": (EVENT, "--data", large),
        "key": (EVENT, "--key", "a\nb"),
    }
    for field, wrong in wrongs.items():
        answer = invoke("event", *wrong)
        assert (answer.exit_code, f"{field}: " in answer.output) == (EXIT_FAILED, True), (
            answer.output
        )
    missing = invoke("event", EVENT, "--db", f"sqlite:{tmp_path / 'none.db'}")
    assert (missing.exit_code, "there is no database" in missing.output) == (EXIT_NOTHING, True)


EVERY_OPTION = {
    "message": ["--message", "Look at the orders"],
    "cron": ["--cron", "0 2 * * 1-5"],
    "timezone": ["--timezone", "Europe/Paris"],
    "event": ["--event", "deployed"],
    "mode": ["--mode", "propose"],
    "blocks": ["--use", "start"],
    "only_if_changed": ["--always"],
    "overlap": ["--overlap", "skip"],
    "missed": ["--missed", "all"],
    "catch_up_s": ["--catch-up", "3600"],
    "require_validation": ["--by-policy"],
    "proposal_ttl_s": ["--proposals-expire", "7200"],
    "language": ["--report-lang", "fr"],
    "provider": ["--run-provider", "ollama"],
    "model": ["--run-model", "qwen3:8b"],
    "day_start_hour": ["--day-start", "4"],
    "first_day": ["--first-day", "sunday"],
    "budget": ["--max-calls", "9", "--max-tokens", "5000", "--max-cost", "0.5"],
}
BUDGET = ["--max-active", "90", "--day-runs", "3", "--day-cost", "1.5"]
# Given as an argument, or instead of one of these.
OTHERWISE = {"graph_key", "name", "from_thread_id", "dates"}


def test_every_field_of_an_automation_has_an_option(graph: str) -> None:
    assert EVERY_OPTION.keys() == AutomationDraft.model_fields.keys() - OTHERWISE
    options = [word for words in EVERY_OPTION.values() for word in words]
    result = invoke("automations", "add", graph, "Orders", *options, *BUDGET, "--json")
    assert result.exit_code == 0, result.output
    added = printed(result)
    for field, value in {
        "onlyIfChanged": False,
        "overlap": "skip",
        "missed": "all",
        "catchUpS": 3600,
        "requireValidation": False,
        "proposalTtlS": 7200,
        "language": "fr",
        "provider": "ollama",
        "model": "qwen3:8b",
        "dayStartHour": 4,
        "firstDay": "sunday",
        "event": "deployed",
    }.items():
        assert added[field] == value, field
    assert added["budget"] == {
        "modelCalls": 9,
        "tokens": 5000,
        "costUsd": 0.5,
        "activeS": 90,
        "dayRuns": 3,
        "dayCostUsd": 1.5,
    }
    edit = ["automations", "edit", added["id"]]
    edited = printed(invoke(*edit, "--only-if-changed", "--max-calls", "5", "--json"))
    assert edited["onlyIfChanged"] is True
    assert edited["budget"] == {**added["budget"], "modelCalls": 5}
    refused = invoke(*edit, "--overlap", "never", exits=EXIT_FAILED)
    assert "overlap: Input should be 'supersede' or 'skip'" in refused.output


@pytest.mark.slow
def test_the_end_of_a_run_is_confirmed_while_it_is_announced_only(graph: str) -> None:
    limits = ["--template", "nightly-check", "--max-calls", "1"]
    key = printed(invoke("automations", "add", graph, *limits, "--json"))["id"]
    run = printed(invoke("automations", "run", key, "--wait", "--json", exits=EXIT_FAILED))
    assert run["endReason"] == "LIMIT_REACHED"
    unsaid = invoke("sessions", "confirm", run["sessionId"], exits=EXIT_USAGE)
    assert "--end or --go-on" in unsaid.output
    for answer in ("--end", "--go-on"):
        late = invoke("sessions", "confirm", run["sessionId"], answer, exits=EXIT_FAILED)
        assert "completed" in late.output.lower()
