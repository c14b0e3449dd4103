"""`nodius calls eval`: stored calls against a changed document."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from datasources.sqlite import SqliteDatabase
from graphrag.leases import now_ms
from graphrag.voice.call_records import Call, CallRecords
from tests.cli.conftest import Env, invoke, printed
from tests.support.in_thread import in_thread
from tests.support.loopback_api import loopback_api

GRAPH = "testgraph001"
OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def agent(url: str, **changes: Any) -> dict[str, Any]:
    """A document of an agent with a tool of an API, one of graphs, and one that ends the call."""
    tools = [
        {"type": "function", "name": "note", "description": "Notes a number.", "parameters": OBJECT}
    ]
    session = {"mode": "inline", "instructions": "Help.", "tools": tools}
    return {
        "version": "2.0",
        "agent": {"id": "desk", "name": "Desk"},
        "base_url": url,
        "session": session,
        "graphs": [GRAPH],
        "greeting": {"unknown_customer": "Greet them."},
        "tools": {
            "note": {
                "type": "http",
                "method": "POST",
                "url": "{{base_url}}/notes",
                "body": {"n": "{{args.n}}"},
                "on_success_flags": ["noted"],
            },
            "leave": {"type": "builtin", "action": "hangup"},
        },
        "lifecycle": {
            "outcome_rules": [
                {"flag": "noted", "outcome": "noted"},
                {"flag": None, "outcome": "info_only"},
            ]
        },
        **changes,
    }


SCRIPT = """
name: noted
greeting: Welcome to the desk.
steps:
  - wait: answer
  - say: Who plays?
    replies:
      - {calls: search_nodes, arguments: {query: player}}
      - {says: Two players are there.}
  - wait: answer
  - say: Note it.
    replies:
      - {calls: note, arguments: {n: 2}}
      - {says: It is noted.}
  - wait: answer
  - say: Bye.
    replies:
      - {calls: leave}
      - {says: Goodbye then.}
  - wait: answer
  - {hangup: true}
"""


def evaluated(folder: Path, document: dict[str, Any], *options: str, exits: int) -> Any:
    """Returns what an evaluation against a changed document prints as JSON."""
    (folder / "changed.json").write_text(json.dumps(document))
    return printed(
        invoke("calls", "eval", "--document", "changed.json", *options, "--json", exits=exits)
    )


@pytest.mark.slow
def test_an_unchanged_document_shows_no_difference_and_a_broken_tool_is_told(
    db: Path, folder: Path, env: Env
) -> None:
    """Also: no request leaves, nothing is stored, and a share of worse calls can be accepted."""
    (folder / "noted.yaml").write_text(SCRIPT)
    with in_thread(loopback_api()) as (api, _):
        env(NODIUS_AGENT_HTTP_ALLOW=f"127.0.0.1:{api.port}")
        api.answers["POST /notes"] = {"kept": True}
        document = agent(api.url)
        (folder / "desk.json").write_text(json.dumps(document))
        invoke("agents", "apply", "desk.json", "--start", exits=0)
        made = printed(invoke("call", "desk", "--simulate", "noted.yaml", "--json", exits=0))
        assert (made["call"]["outcome"], len(api.arrived)) == ("noted", 1)
        same = evaluated(folder, document, exits=0)
        assert (same["replayed"], same["same"], same["words"]) == (1, 1, 1), same["calls"]
        assert same["outcomes"] == [{"before": "noted", "now": "noted", "calls": 1}]
        session = document["session"]
        without = agent(api.url, session={**session, "tools": []}, graphs=[])
        broken = evaluated(folder, without, exits=1)
        (worse,) = broken["calls"]
        assert (worse["callId"], worse["verdict"]) == (made["callId"], "worse")
        assert worse["outcome"] == "info_only"
        lost = "\n".join(worse["lostTools"])
        assert 'note {"n": 2} → {"error":"unknown function: note"' in lost
        assert 'search_nodes {"query": "player"}' in lost
        assert worse["lostSources"]
        assert evaluated(folder, without, "--allow", "100", exits=0)["worsePercent"] == 100
        listed = printed(invoke("calls", "list", "--json"))["calls"]
        assert [call["callId"] for call in listed] == [made["callId"]]
        assert len(api.arrived) == 1


def test_an_evaluation_without_calls_says_so(db: Path, folder: Path) -> None:
    (folder / "desk.json").write_text(json.dumps(agent("http://a.example")))
    assert "no call of desk" in invoke("calls", "eval", "--document", "desk.json", exits=3).stderr
    refused = invoke("calls", "eval", "--document", "desk.json", "--since", "soon", exits=2)
    assert "write hours or days" in refused.stderr


async def add_call(db: Path) -> None:
    call = Call(
        call_id="c1",
        agent_id="desk",
        agent_version=1,
        workspace="default",
        channel="phone",
        status="ended",
        started_time=now_ms(),
        end_reason="lost",
        latency={"turns": [40, 60]},
    )
    async with SqliteDatabase(db) as database:
        assert await CallRecords(database.records("default"), "default").add(call)


def test_figures_of_calls_are_shown_by_day_with_causes(db: Path) -> None:
    assert "No call has ended" in invoke("calls", "figures", exits=3).stderr
    asyncio.run(add_call(db))
    shown = invoke("calls", "figures", exits=0).output
    assert "lost 1" in shown
    assert "total" in shown
    found = printed(invoke("calls", "figures", "--since", "1d", "--json", exits=0))
    assert found["total"]["failures"] == {"lost": 1}
    assert found["days"][0]["answerWaits"] == {"count": 2, "p50": 40, "p95": 60}
    none = printed(invoke("calls", "figures", "--agent", "other", "--json", exits=3))
    assert none["total"]["calls"] == 0
