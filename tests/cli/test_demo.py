"""The `demo` command."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphrag.config import Settings
from tests.cli.conftest import Env, invoke, printed


@pytest.mark.slow
def test_the_demo_works_in_an_empty_folder(folder: Path) -> None:
    result = invoke("demo", exits=0)
    assert result.stdout.count("created graph") == 3
    assert "49 embedded" in result.stdout
    assert (folder / ".nodius" / "nodius.db").is_file()


@pytest.mark.slow
def test_the_demo_chats_with_an_agent_whose_api_learns_how_it_ended(
    demo_file: Path, folder: Path, env: Env
) -> None:
    own = shutil.copyfile(demo_file, folder / "demo.db")
    env(NODIUS_DB=f"sqlite:{own}")
    for _ in range(2):  # it leaves nothing behind, so that it can be run again
        shown = invoke("demo").output
        assert "POST /conversations" in shown
        assert '"outcome": "answered"' in " ".join(shown.split())
    assert "demo-helpdesk" not in invoke("agents", "list").output


def test_the_page_opens_on_one_answer_and_a_recorded_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The recording is played over the wire, through the package of the model's maker,
    with real tools.
    """
    served: list[str] = []

    def serve(settings: Settings, *, on_ready: Callable[[str], None], any_port: bool) -> None:
        assert settings.agent_http_allow == (), "the API of the sample agent is gone by now"
        on_ready("http://127.0.0.1:1/")

    monkeypatch.setattr("cli.demo.serve_settings", serve)
    monkeypatch.setattr("cli.demo.open_page", served.append)
    for _ in range(2):
        invoke("demo", "--serve", exits=0)
    threads = {one["title"]: one for one in printed(invoke("threads", "list", "--json"))}
    assert len(threads) == 3, "with that of the proposal that waits"
    answered = threads["What happens when fetching the players fails?"]
    assert served == [f"http://127.0.0.1:1/#graph=testgraph001&thread={answered['threadId']}"] * 2
    recorded = next(one for title, one in threads.items() if title.startswith("Recorded: "))
    shown = invoke("threads", "show", recorded["threadId"]).output
    assert "read_node_detail" in shown
    assert "fetch-api" in shown
    assert recorded["totalTokens"] > 1_000


def test_the_demo_keeps_an_agent_a_finished_run_a_proposal_and_a_recording_but_not_what_was_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is stored once: a second start doubles nothing, and brings nothing back."""
    monkeypatch.setattr("cli.demo.serve_settings", lambda *_, **__: None)

    def stored() -> tuple[list[Any], list[Any], list[Any]]:
        agents = printed(invoke("agents", "list", "--json"))["agents"]
        automations = printed(invoke("automations", "list", "--json"))
        return agents, automations, printed(invoke("threads", "list", "--json"))

    invoke("demo", "--serve", exits=0)
    [agent], [automation], threads = stored()
    assert (agent["id"], agent["state"]) == ("helpdesk", "stopped")
    last = automation["last"]
    assert (last["report"]["outcome"], last["endReason"]) == ("findings", "COMPLETED")
    waiting = [one for one in threads if one["status"] == "waiting"]
    assert len(waiting) == 1
    assert sum(one["title"].startswith("Recorded: ") for one in threads) == 1
    invoke("demo", "--serve", exits=0)
    assert stored() == ([agent], [automation], threads)

    invoke("agents", "delete", "helpdesk", exits=0)
    invoke("automations", "remove", automation["id"], exits=0)
    for one in threads:
        if one in waiting or one["title"].startswith("Recorded: "):
            invoke("threads", "delete", one["threadId"], exits=0)
    invoke("demo", "--serve", exits=0)
    agents, automations, rest = stored()
    assert (agents, automations, len(rest)) == ([], [], 1)


def test_the_demos_question_finds_where_errors_go(demo_db: str) -> None:
    found = printed(
        invoke("context", "testgraph001", "What happens when fetching the players fails?", "--json")
    )
    assert {node["key"] for node in found["nodes"][:2]} == {"fetch-api", "error-handler"}
    assert "fetch-api --error--> error-handler" in found["text"]


@pytest.mark.slow
def test_a_second_demo_changes_nothing() -> None:
    invoke("demo")
    before = [{**graph, "revision": 0} for graph in printed(invoke("graphs", "--json"))]
    exported = printed(invoke("export", "testgraph001", "--json"))
    again = invoke("demo", "--no-serve", exits=0)
    assert again.stdout.count("unchanged graph") == 3
    assert "0 embedded, 49 up to date" in again.stdout
    assert [{**graph, "revision": 0} for graph in printed(invoke("graphs", "--json"))] == before
    exported_again = printed(invoke("export", "testgraph001", "--json"))
    assert [exported_again[part] for part in ("nodes", "edges")] == [
        exported[part] for part in ("nodes", "edges")
    ]


@pytest.mark.parametrize(
    ("language", "done"), [("en", "UNDONE"), pytest.param("fr", "ANNULÉ", marks=pytest.mark.slow)]
)
def test_the_demo_ends_in_a_change_that_is_proposed_approved_shown_and_undone(
    language: str, done: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # its sound takes longer than the rest
    monkeypatch.setattr("cli.demo.show_the_helpdesk_call", lambda *_: None)
    result = invoke("demo", "--lang", language, exits=0)
    talk, _, nights = (
        result.stdout.partition("\n4. ")[2].partition("Try next")[0].partition("\n8. ")
    )
    parts = talk.split("\n> ")
    asked = parts[1]
    proposed = parts[2]
    after = parts[-2]
    undone = parts[-1]
    assert "error-handler" in asked
    assert "+ node ai_" in proposed
    new = next(word for word in proposed.split() if word.startswith("ai_"))
    assert f"- {new}" in after
    assert done in after
    assert new not in undone
    first, second, third = nights.partition("\n9. ")[2].split(" 02:00 UTC")[1:]
    assert "\napproved\n" in nights
    assert nights.count("edge-display-return-twice") > 2, "found, proposed and reported as done"
    assert "Note" in second, "what people are to look at stays"
    assert "skipped (unchanged)" in third
    assert "edge-display-return-twice" in first
    events = [entry["event"] for entry in printed(invoke("audit", "--json"))]
    assert events.index("applied") < events.index("undone"), "the newest is the repair"
    invoke("threads", "list", exits=3)


@pytest.mark.slow
def test_what_to_try_next_can_be_typed_as_it_stands() -> None:
    result = invoke("demo", "--lang", "fr", "--db", "sqlite:my demo.db")
    commands = [
        line.strip() for line in result.stdout.partition("Try next")[2].splitlines() if line.strip()
    ]
    assert commands[0] == 'nodius graphs --db "sqlite:my demo.db" --lang fr'
    assert "TOUS LES NODES" in result.stdout
    assert all('--db "sqlite:my demo.db" --lang fr' in command for command in commands)


@pytest.mark.parametrize("key", ["testgraph001", "order-refund", "greenhouse-climate"])
def test_every_sample_can_be_asked_by_its_key(demo_db: str, key: str) -> None:
    invoke("context", key, "start", exits=0)


@pytest.mark.slow
def test_a_second_workspace_is_advised_to_use_another_database() -> None:
    invoke("demo")
    result = invoke("demo", "--workspace", "other", exits=1)
    assert "taken in another workspace" in result.stderr
    assert "--db" in result.stderr


@pytest.mark.slow
def test_the_demo_answers_without_embeddings(env: Env) -> None:
    env(NODIUS_EMBEDDINGS="none")
    result = invoke("demo", exits=0)
    assert "text search alone" in result.stdout
    assert "ALL NODES" in result.stdout
