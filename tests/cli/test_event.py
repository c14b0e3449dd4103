"""`nodius event`: runs of what waits for it, once for a key, and clear words for what starts nothing."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.common import EXIT_FAILED, EXIT_NOTHING, EXIT_USAGE
from datasources.base import Record
from datasources.sqlite import SqliteDatabase
from graphrag.automations import session_events
from graphrag.automations.drafts import MAX_DATA_BYTES
from graphrag.sessions.machine import SessionLimits
from tests.cli.conftest import invoke, printed
from tests.support.service import GRAPH

EVENT = "order.failed"


def waiting() -> str:
    """Add an automation that waits for the event; return its id."""
    added = invoke(
        "automations", "add", GRAPH, "Orders", "-m", "describe fetch-api", "--event", EVENT, "--json"
    )
    return printed(added)["id"]


def run_of(db: Path, key: str) -> dict[str, Any]:
    """Return a run as it is stored."""

    async def read() -> Record | None:
        async with SqliteDatabase(db) as database:
            return await database.records("default").get("session", key)

    found = asyncio.run(read())
    assert found is not None
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
    assert any('"order": "A-17"' in str(message["content"]) for message in run["conversationHistory"])
    again = printed(invoke(*given, "--json"))
    assert (again["started"], again["repeated"]) == ([started], True)
    assert f"{started['sessionId']} of {automation} was started" in " ".join(invoke(*given).output.split())
    due = invoke("automations", "run-due", "--json")
    assert due.exit_code == 0, due.output
    assert run_of(db, started["sessionId"])["session"] != run["session"]  # it was worked on


def test_what_starts_nothing_says_why(db: Path, tmp_path: Path) -> None:
    nobody = invoke("event", EVENT)
    assert (nobody.exit_code, "no automation waits" in nobody.output) == (EXIT_NOTHING, True)
    automation = waiting()
    invoke("automations", "pause", automation)
    paused = invoke("event", EVENT, "--json")
    assert paused.exit_code == EXIT_FAILED
    [refused] = printed(paused)["refused"]
    assert (refused["automationId"], refused["code"]) == (automation, "conflict")
    assert "paused" in invoke("event", EVENT).output
    assert invoke("event", EVENT, "--data", "{").exit_code == EXIT_USAGE
    large = json.dumps("x" * MAX_DATA_BYTES)
    wrongs = {"name": ("Order failed",), "data": (EVENT, "--data", large), "key": (EVENT, "--key", "a\nb")}
    for field, wrong in wrongs.items():
        answer = invoke("event", *wrong)
        assert (answer.exit_code, f"{field}: " in answer.output) == (EXIT_FAILED, True), answer.output
    missing = invoke("event", EVENT, "--db", f"sqlite:{tmp_path / 'none.db'}")
    assert (missing.exit_code, "there is no database" in missing.output) == (EXIT_NOTHING, True)
