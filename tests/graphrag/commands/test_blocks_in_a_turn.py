"""Blocks from sending to what the model is sent and what is stored."""

import json
from collections.abc import Awaitable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from datasources.base import Record
from graphrag.agent.events import TurnStarted
from graphrag.agent.thread_store import KIND
from graphrag.approvals import Approve
from graphrag.commands import BlockReader, BlockRefused, SentBlock
from graphrag.commands.block_reader import load_phrases
from graphrag.commands.data_commands import CommandPlace, DataCommand
from graphrag.commands.execute import CommandResult, data_added, execute
from graphrag.llm.base import SystemMessage, UserMessage
from tests.support.agents import EDITOR, GRAPH, Setting, only, scripted
from tests.support.scripted_provider import Says, call
from tools.base import Problem, ToolContext, ToolResult, failure

NODE = "fetch-api"
DAY = 24 * 3_600_000


def use(key: str = NODE, block_id: str = "b1", **more: Any) -> SentBlock:
    given = {"id": block_id, "type": "USE", "target": {"kind": "node", "key": key}, **more}
    return SentBlock.model_validate(given)


def pointer(kind: str, key: str, block_id: str = "b1", **more: Any) -> SentBlock:
    given = {"id": block_id, "type": "POINTER", "target": {"kind": kind, "key": key}, **more}
    return SentBlock.model_validate(given)


def place_of(setting: Setting) -> CommandPlace:
    blocks = setting.agent.blocks
    context = ToolContext(source=setting.source, graph_key=GRAPH, history=blocks.checker.history)
    return CommandPlace(context=context, box=blocks.box, history=blocks.checker.history)


async def run(setting: Setting, *given: DataCommand, budget: int = 8_000) -> list[CommandResult]:
    blocks = setting.agent.blocks
    return await execute([given], place_of(setting), blocks.guard, budget=budget)


async def test_a_message_with_blocks_is_stored_with_what_they_found_and_no_command() -> None:
    sent = [use(), pointer("node", NODE, "b2", at=5, period={"from": "-1_WEEK", "to": "-1_WEEK"})]
    async with scripted("Fine.", "And on.") as (setting, model):
        thread_id = only(await setting.ask("What of it?", blocks=sent), TurnStarted).thread_id
        await setting.ask("And then?", thread_id)
        first, second = model.requests
        record = await setting.database.records("default").get(KIND, thread_id)
        assert record is not None
    question, data = [m for m in first.messages if isinstance(m, UserMessage) or _is_data(m)]
    assert first.messages[-1] == data
    assert question.content.startswith("What [points to Fetch")
    assert "] of it? [uses Fetch" in question.content
    assert data.content.count("## ") == 7
    [earlier] = [message for message in second.messages if _is_data(message)]
    assert data.content.startswith(earlier.content[:1_000])  # cut, as results of earlier turns are
    [note] = [raw for raw in record.data["conversationHistory"] if raw.get("systemKind")]
    assert [one["status"] for one in note["results"]] == [
        *["SUCCESS"] * 3,
        "CACHED",
        *["SUCCESS"] * 3,
    ]
    assert note["data"] == data.content
    assert note["content"] == note["summary"]
    assert len(note["summary"]) <= 300
    [said] = [raw for raw in record.data["conversationHistory"] if raw.get("segments")]
    kept = [part["block"] for part in said["segments"] if "block" in part]
    assert [one["id"] for one in kept] == ["b2", "b1"]
    assert all("_WEEK" not in end for end in kept[0]["period"].values())
    raw = json.dumps(record.data)
    for name in ("params", "NODE_STATS"):
        assert f'"{name}"' not in raw


def _is_data(message: Any) -> bool:
    return isinstance(message, SystemMessage) and message.kind == "DATA_ADDED"


async def test_the_same_blocks_twice_give_the_same_bytes() -> None:
    sent = [use(), pointer("graph", GRAPH, "b2")]
    found: list[list[Any]] = []
    async with scripted("One.", "Two.") as (setting, model):
        for _ in range(2):
            await setting.ask("What of it?", blocks=sent)
    found = [[message.content for message in request.messages] for request in model.requests]
    assert found[0] == found[1]


async def test_a_vanished_target_is_refused_when_sent_and_said_when_run() -> None:
    async with scripted() as (setting, _):
        reader = setting.agent.blocks
        for kind, wrong, near in (
            ("node", "fetch-apo", NODE),
            ("sheet", "9", "–"),
            ("graph", "other", GRAPH),
            ("edge", "no-edge", "–"),
            ("nodeType", "htmk", "html"),
        ):
            with pytest.raises(BlockRefused, match="block 2") as caught:
                await setting.ask("x", blocks=[use(), pointer(kind, wrong, "b2")])
            assert near in str(caught.value)
        data = await _data_of(reader, use("gone"), use(block_id="b2"))
    statuses = [result["status"] for result in data.results]
    assert statuses == ["FAILED", *["CANCELLED"] * 4, *["SUCCESS"] * 5]
    assert "gone" in data.results[0]["error"]
    assert "FAILED: " in data.content
    assert "not tried" in data.summary


@pytest.mark.parametrize(
    ("command_type", "params", "holds"),
    [
        ("SCHEMA", {"nodeType": "html"}, "html"),
        ("SCHEMA", {"node": NODE}, "handles"),
        ("TYPE_CONFIG", {"nodeType": "html"}, "html"),
        ("GRAPH", {"graph": GRAPH}, "entry_points"),
        ("SHEET", {"sheet": "0"}, NODE),
        ("TYPE_USES", {"nodeType": "html"}, "display-html"),
        ("TYPE_EXAMPLES", {"nodeType": "html"}, "display-html"),
        ("NODE", {"node": NODE}, NODE),
        ("NODE_DATA", {"node": NODE}, "data of"),
        ("NODE_LINKS", {"node": NODE}, "outbound|out"),
        ("EDGE", {"edge": "EDGE"}, "ends"),
        ("NODE_STATS", {"node": NODE}, "changes_in_30_days"),
        ("HISTORY", {"node": NODE, "from": "-7_DAY", "to": "NOW"}, "Nothing changed"),
    ],
)
async def test_each_command_reads_what_its_row_says(
    command_type: Any, params: dict[str, str], holds: str
) -> None:
    async with scripted() as (setting, _):
        edges = await setting.source.get_edges(GRAPH)
        filled = {name: edges[0].key if key == "EDGE" else key for name, key in params.items()}
        found = await run(setting, DataCommand(type=command_type, params=filled))
    assert [one.status for one in found] == ["SUCCESS"]
    assert any(part in found[0].text for part in holds.split("|"))
    assert all(one.title for one in found)


async def test_a_period_that_is_none_fails_alone_and_a_relative_one_counts_from_the_reference() -> (
    None
):
    async with scripted() as (setting, _):
        reader = setting.agent.blocks
        blocks = [pointer("node", NODE, period={"from": "x", "to": "NOW"})]
        [_, bad] = (await _data_of(reader, *blocks)).results
        assert (bad["status"], "x" in bad["error"]) == ("FAILED", True)
        yesterday = pointer("node", NODE, period={"from": "-1_DAY", "to": "-1_DAY"})
        for day in (24, 25):
            at = round(datetime(2026, 11, day, 10, tzinfo=UTC).timestamp() * 1000)
            data = await _data_of(reader, yesterday, reference=at)
            assert f"From 2026-11-{day - 1}T00:00:00" in data.content


async def _data_of(
    reader: BlockReader, *blocks: SentBlock, reference: int | None = None
) -> SystemMessage:
    said = UserMessage(content="x", segments=tuple({"block": one.to_document()} for one in blocks))
    data = await reader.read(said, GRAPH, "editor", "en", reference=reference)
    assert data is not None
    return data


async def test_results_together_are_cut_to_the_budget_and_it_is_said() -> None:
    async with scripted() as (setting, _):
        given = [
            DataCommand(type=one, params={"node": NODE})
            for one in ("NODE", "NODE_DATA", "NODE_LINKS")
        ]
        whole = await run(setting, *given)
        cut = await run(setting, *given, budget=100)
    assert sum(one.tokens for one in whole) > 100
    assert not any(one.is_cut for one in whole)
    assert sum(one.tokens for one in cut) <= 100 + 20 * len(given)
    assert [one.status for one in cut] == ["SUCCESS"] * 3
    head = load_phrases("turn", "en")["data_added"].render({})
    assert "cut" in data_added(cut, head, "en").summary


async def test_a_command_that_fails_or_hangs_ends_its_own_block_only() -> None:
    async with scripted() as (setting, _):
        reader = setting.agent.blocks

        async def guard(name: str, work: Awaitable[ToolResult]) -> ToolResult:
            result = await reader.guard(name, work)
            return failure("unavailable", Problem(what="hung")) if name == "NODE_LINKS" else result

        failing = replace(reader, guard=guard)
        said = await failing.checker.checked(
            GRAPH, "x", [use(), pointer("graph", GRAPH, "b2")], "fr"
        )
        data = await failing.read(said, GRAPH, "editor", "fr")
        assert data is not None
    statuses = [result["status"] for result in data.results]
    assert statuses == [*["SUCCESS"] * 3, "FAILED", "CANCELLED", "SUCCESS"]
    assert "ÉCHEC : hung" in data.content


async def test_history_is_one_list_of_edits_changes_and_undos() -> None:
    rename = {"nodeKey": NODE, "changes": {"data.name": "Players"}, "reason": "asked"}
    async with scripted(Says(calls=[call("propose_update_node", rename)]), "Done.") as (setting, _):
        thread_id = only(await setting.ask("rename it"), TurnStarted).thread_id
        await setting.resume(thread_id, decision=Approve())
        records = setting.database.records("default")
        [applied] = await setting.approvals.list(by=EDITOR, graph_key=GRAPH)
        await setting.approvals.undo(GRAPH, applied.id, by=EDITOR)
        now = setting.agent.blocks.checker.clock()
        entry = {
            "type": "nodeUpdate",
            "nodeId": NODE,
            "sheetId": "0",
            "instruction": {"o": 1, "p": ["data", "url"], "v": "x"},
            "userId": "ann",
            "timestamp": now - DAY,
        }
        for kind, key, data in (
            ("history", "saved", {"timestamp": now - DAY, "history": [entry]}),
            ("journal", "left", {"sequence": 1, "changes": [{"history": [_at(entry, now - 1)]}]}),
        ):
            stored = Record(kind=kind, key=key, data={"graphKey": GRAPH, **data})
            await records.put(stored, expected_version=None)
        everything = await _history(setting)
        of_other = await _history(setting, node="filter-active")
        yesterday = await _history(setting, **{"from": "-1_DAY", "to": "-1_DAY"})
        wrong = await _history(setting, **{"from": "later"})
        unknown = await _history(setting, node="fetch-apo")
        newest = await _history(setting, limit=1)
    rows = everything.data["changes"]
    assert {row["kind"] for row in rows} == {"edit", "change", "undo"}
    assert [row["who"] for row in rows if row["kind"] == "edit"] == ["ann", "ann"]
    assert [row["time"] for row in rows] == sorted((row["time"] for row in rows), reverse=True)
    [change] = [row for row in rows if row["kind"] == "change"]
    assert change["proposal"] == applied.id
    assert change["undone"] == "yes"
    assert "Players" in change["what"]
    [undo] = [row for row in rows if row["kind"] == "undo"]
    assert undo["what"] == f"undo: {change['what']}"
    assert of_other.data["changes"] == []
    assert [row["kind"] for row in yesterday.data["changes"]] == ["edit"]
    assert wrong.error is not None
    assert unknown.error is not None
    assert NODE in unknown.text
    assert newest.data["more"]


def _at(entry: dict[str, Any], at: int) -> dict[str, Any]:
    return {**entry, "timestamp": at}


async def _history(setting: Setting, **arguments: Any) -> ToolResult:
    return await setting.agent.blocks.box.run(
        "read_history", json.dumps(arguments), place_of(setting).context
    )


async def test_a_preview_says_what_each_block_weighs() -> None:
    async with scripted() as (setting, _):
        reader: BlockReader = setting.agent.blocks
        found = await reader.preview(GRAPH, [use(), pointer("graph", GRAPH, "b2")], "viewer", "en")
    assert [one.id for one in found] == ["b1", "b2"]
    assert found[0].summary.startswith("uses Fetch")
    assert all(one.tokens > 20 for one in found)
