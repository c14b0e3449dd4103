"""The commands that decide: list, show, approve, reject, undo, audit."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cli import render
from datasources.base import Record
from datasources.sqlite import SqliteDatabase
from graphrag.approvals.audit import KIND
from tests.cli.conftest import Env, invoke, name_of, printed, propose
from tests.graphrag.llm.wire import openai_text, streamed
from tests.support.scripted_http import ScriptedServer

GRAPH = "testgraph001"


def rename(db: Path, name: str = "Fetch it") -> str:
    return propose(db, "update_node", nodeKey="fetch-api", changes={"data.name": name})


def test_list_gives_scripts_what_waits_with_its_preview(db: Path) -> None:
    approval_id = rename(db)
    (found,) = printed(invoke("review", "list", "--json"))
    assert (found["id"], found["graphKey"], found["status"]) == (approval_id, GRAPH, "pending")
    assert found["reason"] == "it is too slow"
    (change,) = found["preview"]["nodesChanged"]
    assert change["fields"] == [
        {"path": ["data", "name"], "before": "Fetch NBA players", "after": "Fetch it"}
    ]


def test_list_puts_what_waits_first_and_filters_by_status(db: Path) -> None:
    waiting = rename(db, "One")
    done = rename(db, "Two")
    invoke("review", "reject", done, exits=0)
    text = invoke("review", "list").stdout
    assert text.index(waiting) < text.index("until 20") < text.index(done)
    assert text.count("until 20") == 1
    (found,) = printed(invoke("review", "list", "--json", "--status", "rejected"))
    assert found["id"] == done
    invoke("review", "list", "--status", "applied", exits=3)
    invoke("review", "list", "--status", "approved", exits=2)


def test_show_prints_the_diff_of_code_and_fields(db: Path) -> None:
    code = "next('0', 1)"
    approval_id = propose(
        db, "update_node", nodeKey="fetch-api", changes={"process": code, "data.timeoutMs": 5}
    )
    text = invoke("review", "show", approval_id).stdout
    for expected in (
        "+next('0', 1)",
        "- data.timeoutMs: 8000",
        "+ data.timeoutMs: 5",
        "it is too slow",
        "ed (thread t1",
    ):
        assert expected in text
    shown = printed(invoke("review", "show", approval_id, "--json"))
    assert shown["action"]["payload"]["changes"]["process"] == code


def test_approve_applies_and_undo_takes_it_back_and_forth(db: Path) -> None:
    approval_id = rename(db)
    result = invoke("review", "approve", approval_id)
    assert (result.exit_code, name_of("fetch-api")) == (0, "Fetch it")
    assert "APPLIED: rename “Fetch NBA players” to “Fetch it”. Approved by local." in result.stdout
    undone = printed(invoke("undo", GRAPH, "--json"))
    assert (undone["undoes"], name_of("fetch-api")) == (approval_id, "Fetch NBA players")
    invoke("undo", GRAPH, exits=3)
    invoke("undo", GRAPH, undone["id"], exits=0)
    assert name_of("fetch-api") == "Fetch it"


def test_undo_of_a_turn_takes_all_its_changes_back_and_the_id_it_names_redoes_them(
    db: Path,
) -> None:
    other = propose(db, "update_node", nodeKey="root", changes={"data.name": "Other"})
    for approval_id in (rename(db), other):
        invoke("review", "approve", approval_id, exits=0)
    result = invoke("undo", GRAPH, "--turn")
    assert (result.exit_code, name_of("fetch-api")) == (0, "Fetch NBA players")
    assert name_of("root") != "Other"
    again = result.stderr.split("To redo it: nodius ")[1].split()
    invoke(*again, exits=0)
    assert (name_of("fetch-api"), name_of("root")) == ("Fetch it", "Other")


def test_undo_takes_an_id_alone_and_says_what_a_word_could_have_been(db: Path) -> None:
    approval_id = rename(db)
    invoke("review", "approve", approval_id, exits=0)
    result = invoke("undo", approval_id)
    assert (result.exit_code, name_of("fetch-api")) == (0, "Fetch NBA players")
    again = result.stderr.split("To redo it: nodius ")[1].split()
    invoke(*again, exits=0)
    assert name_of("fetch-api") == "Fetch it"
    unknown = invoke("undo", f"{GRAPH}x", exits=3)
    assert f"did you mean {GRAPH}?" in unknown.stderr
    assert "nor a change of this id" in unknown.stderr


def test_the_audit_log_of_a_graph_that_does_not_exist_is_not_called_empty(db: Path) -> None:
    assert "did you mean" in invoke("audit", "--graph", f"{GRAPH}x").stderr
    assert "imported" in invoke("audit", "--graph", GRAPH).stdout


def test_a_second_approval_says_who_was_first_and_changes_nothing(db: Path) -> None:
    approval_id = rename(db)
    invoke("review", "approve", approval_id, exits=0)
    assert "local has approved" in invoke("review", "approve", approval_id, exits=1).stderr
    assert "local a déjà approuvé" in invoke("review", "reject", approval_id, "--lang", "fr").stderr


def test_reject_keeps_the_graph_and_the_feedback(db: Path) -> None:
    approval_id = rename(db)
    result = invoke("review", "reject", approval_id, "--feedback", "the old name is fine")
    assert (result.exit_code, name_of("fetch-api")) == (0, "Fetch NBA players")
    assert "the old name is fine" in result.stdout


def test_approve_with_an_edit_carries_the_edit_out_and_keeps_the_feedback(
    db: Path, folder: Path
) -> None:
    approval_id = rename(db)
    action = printed(invoke("review", "show", approval_id, "--json"))["action"]
    action["payload"]["changes"]["data.name"] = "Fetched"
    (folder / "edit.json").write_text(json.dumps(action))
    result = invoke(
        "review", "approve", approval_id, "--edit", "edit.json", "--feedback", "shorter"
    )
    assert (result.exit_code, name_of("fetch-api")) == (0, "Fetched")
    assert "Feedback: shorter" in result.stdout
    newest, _imported = printed(invoke("audit", "--json"))
    assert newest["feedback"] == "shorter"
    assert "was edited to" in invoke("review", "show", approval_id).stdout


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (None, 2, "cannot read"),
        ("{", 2, "not JSON"),
        ('{"type": "explode", "payload": {}}', 2, "review show"),
        ('{"type": "delete_node", "payload": {"nodeKey": "nowhere"}}', 1, "nowhere"),
    ],
)
def test_an_edit_that_cannot_be_is_refused_and_the_proposal_still_waits(
    db: Path, folder: Path, text: str | None, code: int, says: str
) -> None:
    approval_id = rename(db)
    if text is not None:
        (folder / "edit.json").write_text(text)
    assert (
        says in invoke("review", "approve", approval_id, "--edit", "edit.json", exits=code).stderr
    )
    assert printed(invoke("review", "show", approval_id, "--json"))["status"] == "pending"


def test_a_stale_proposal_fails_with_the_reason(db: Path) -> None:
    first = rename(db, "One")
    second = rename(db, "Two")
    invoke("review", "approve", first, exits=0)
    assert "field/fetch-api/data.name" in invoke("review", "approve", second, exits=1).stderr
    assert name_of("fetch-api") == "One"


def test_an_undo_that_later_changes_forbid_is_refused(db: Path) -> None:
    first = rename(db, "One")
    invoke("review", "approve", first)
    second = rename(db, "Two")
    invoke("review", "approve", second)
    assert "node/fetch-api: data.name" in invoke("undo", GRAPH, first, exits=1).stderr


def test_what_is_not_there_is_said_with_exit_code_3(db: Path) -> None:
    for arguments in (("show", "ap_0"), ("approve", "ap_0"), ("reject", "ap_0")):
        assert "nodius review list" in invoke("review", *arguments, exits=3).stderr
    invoke("undo", "testgraph002", exits=3)
    invoke("review", "list", exits=3)
    invoke("audit", "--workspace", "globex", exits=3)
    elsewhere = rename(db)
    invoke("review", "approve", elsewhere, "--workspace", "globex", exits=3)


def test_the_audit_says_who_asked_who_decided_and_what_changed(db: Path) -> None:
    approval_id = rename(db)
    invoke("review", "approve", approval_id)
    invoke("undo", GRAPH)
    entries = printed(invoke("audit", "--json"))
    assert [entry["event"] for entry in entries] == ["undone", "applied", "imported"]
    assert entries[1]["asker"] == "ed"
    assert entries[1]["userId"] == "local"
    assert entries[1]["model"] == "a-model"
    assert "changed nodes: fetch-api" in invoke("audit", "--graph", GRAPH).stdout


def test_verify_passes_on_the_chain_and_fails_on_a_changed_entry(db: Path) -> None:
    invoke("review", "approve", rename(db))
    sound = printed(invoke("audit", "verify", "--json"))
    assert (sound["sound"], sound["entries"]) == (True, 2)
    invoke("audit", "verify", "--head", sound["head"], exits=0)
    invoke("audit", "verify", "--head", "f" * 64, exits=1)

    async def forge() -> None:
        async with SqliteDatabase(db) as database:
            records = database.records("default")
            entry = await records.get(KIND, f"{1:012}")
            forged = Record(kind=KIND, key=entry.key, data={**entry.data, "userId": "somebody"})
            await records.put(forged, expected_version=entry.version)

    asyncio.run(forge())
    assert "entry 1 was changed" in invoke("audit", "verify", exits=1).stderr


def test_with_four_eyes_who_asked_cannot_approve_by_command(db: Path, env: Env) -> None:
    edges = {"local": "edge-root-fetch", "ed": "edge-fetch-error"}
    own, others = (propose(db, "delete_edge", by=by, edgeKey=edge) for by, edge in edges.items())
    env(NODIUS_DECIDERS="four-eyes")
    assert "somebody else must decide" in invoke("review", "approve", own, exits=1).stderr
    invoke("review", "approve", others, exits=0)


def vectors_of(db: Path, key: str) -> Any:
    async def work() -> Any:
        async with SqliteDatabase(db) as database:
            return (await database.source("default").get_vector_info(GRAPH, [key])).get(key)

    return asyncio.run(work())


def test_what_an_approval_or_an_undo_changed_is_embedded_at_once(db: Path) -> None:
    invoke("embed-nodes", exits=0)
    before = vectors_of(db, "fetch-api")
    approval_id = rename(db, "Something else entirely")
    invoke("review", "approve", approval_id, exits=0)
    changed = vectors_of(db, "fetch-api")
    assert changed is not None
    assert changed != before
    invoke("undo", GRAPH, exits=0)
    assert vectors_of(db, "fetch-api") == before


def test_policy_shows_and_sets_for_which_changes_people_are_asked(db: Path) -> None:
    found = json.loads(invoke("policy", "--json").stdout)
    assert (len(found["application"]), found["workspace"], found["nodeTypes"]) == (6, [], {})
    invoke("policy", "--set", "delete,code", exits=0)
    invoke("policy", GRAPH, "--set", "content", exits=0)
    found = json.loads(invoke("policy", GRAPH, "--json").stdout)
    assert (found["workspace"], found["graph"]) == (["code", "delete"], ["content"])
    assert "graph: content" in invoke("review", "show", rename(db)).stdout
    invoke("policy", GRAPH, "--set", "none", exits=0)
    assert json.loads(invoke("policy", GRAPH, "--json").stdout)["graph"] == []
    for wrong in (["--set", "all"], ["--type", "x"], [GRAPH, "--type", "x"]):
        invoke("policy", *wrong, exits=2)
    invoke("policy", "nowhere", exits=3)
    invoke("policy", GRAPH, "--type", "nowhere", "--set", "code", exits=3)


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
    node: dict[str, Any] = {
        "typeKey": "log-node",
        "data": {"name": text},
        "edges": [edge | {"label": text}],
    }
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
    db: Path, text: str, width: str | None, env: Env
) -> None:
    if width:
        env(COLUMNS=width)
    approval_id = propose_node(db, text)
    check(invoke("review", "list").output)
    check(invoke("review", "show", approval_id).output)
    check(invoke("review", "approve", approval_id, "--feedback", text).output, genuine=1)
    check(invoke("review", "show", approval_id).output, genuine=1)
    check(invoke("undo", GRAPH).output)
    check(invoke("audit").output)


@pytest.mark.slow
def test_no_message_or_answer_forges_a_line_of_a_transcript(db: Path, env: Env) -> None:
    with ScriptedServer() as served:
        env(
            NODIUS_PROVIDER="compatible",
            NODIUS_MODEL="some-model",
            NODIUS_LLM_BASE_URL=f"{served.url}/v1",
        )
        for text in FORGERIES:
            served.play(streamed(openai_text(text)))
            invoke("ask", GRAPH, f"who?{text}", exits=0)
    check(invoke("threads", "list").stdout)
    for thread in printed(invoke("threads", "list", "--json")):
        for line in invoke("threads", "show", thread["threadId"]).stdout.splitlines():
            assert not line.startswith("APPLIED")


def test_a_long_text_of_somebody_is_cut_after_some_rows(capsys: pytest.CaptureFixture[str]) -> None:
    render.quote("  why: ", "line\n" * 5_000)
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == render.MAX_ROWS + 1
    assert rows[:2] == ["  why: line⏎", "       │ line⏎"]
    assert rows[-1] == "       │ … (25,000 characters)"
