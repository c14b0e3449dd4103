"""The assistant works on what people are editing: it finds unsaved edits, editors see what is approved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from graphrag.app.wiring import Services, open_shared
from graphrag.approvals import Approve, Asked, Person
from graphrag.config import Settings
from graphrag.live import LiveGraph, LiveGraphs
from graphrag.live.instruction_batch import apply_instructions
from tests.graphrag.live.helpers import NEVER, heard, rename

GRAPH = "testgraph001"
EDITOR = Person("ann", "editor", "test")


@asynccontextmanager
async def _service() -> AsyncIterator[tuple[Services, LiveGraph]]:
    settings = Settings(db="memory:", workspace="test", embeddings="none")
    async with open_shared(settings) as shared:
        database = shared.database
        async with LiveGraphs(database.source, database.records, options=NEVER) as graphs:
            services = shared.services("test", live_graphs=graphs)
            yield services, await graphs.open("test", GRAPH)


async def _renamed(live: LiveGraph, name: str) -> str:
    node = next(node for node in live.nodes if isinstance(node.data, dict))
    await live.edit("ann", None, apply_instructions, [rename(node.key, name, sheet=node.sheet)])
    return node.key


async def _proposed(services: Services, key: str, name: str) -> Any:
    action = {"type": "update_node", "payload": {"nodeKey": key, "changes": {"data.name": name}}}
    return await services.approvals.propose(
        action, Asked(graph_key=GRAPH, thread_id="t", turn=1, tool_call_id="c", asker=EDITOR, model="m")
    )


async def test_a_question_finds_an_unsaved_edit_at_once() -> None:
    async with _service() as (services, live):
        before = await services.retriever.retrieve(GRAPH, "xylophone")
        key = await _renamed(live, "Xylophone")
        found = await services.retriever.retrieve(GRAPH, "xylophone")
        assert found.nodes[0].node.key == key
        assert found.graph.revision != before.graph.revision
        again = await services.retriever.retrieve(GRAPH, "xylophone")
        assert again.cached
        await _renamed(live, "Marimba")
        later = await services.retriever.retrieve(GRAPH, "xylophone")
        assert not later.cached
        assert "Xylophone" not in str([scored.node.data for scored in later.nodes])


async def test_an_approval_is_checked_on_the_unsaved_edits_and_shown_to_editors() -> None:
    async with _service() as (services, live):
        key = await _renamed(live, "Unsaved")
        node = next(node for node in live.nodes if node.key == key)
        member = live.join("bob", node.sheet)
        approval = await _proposed(services, key, "Approved")
        assert "Unsaved" in str(approval.preview)
        decided = await services.approvals.decide(approval.id, Approve(), EDITOR)
        assert decided.status == "applied"
        assert decided.result is not None
        stored = await services.database.source("test").get_graph(GRAPH)
        assert decided.result.revision == stored.revision
        assert "Approved" in str(next(n.data for n in live.nodes if n.key == key))
        sent = [m for m in heard(member) if m["type"] == "applyInstructionToGraph"]
        assert "Approved" in str(sent[-1])


async def test_an_edit_of_what_was_proposed_makes_the_approval_stale() -> None:
    async with _service() as (services, live):
        key = next(node.key for node in live.nodes if isinstance(node.data, dict))
        approval = await _proposed(services, key, "Approved")
        await _renamed(live, "Edited meanwhile")
        decided = await services.approvals.decide(approval.id, Approve(), EDITOR)
        assert decided.status == "stale"
        assert "Edited meanwhile" in str(next(n.data for n in live.nodes if n.key == key))


async def test_an_undo_reaches_the_editors_and_leaves_other_edits_alone() -> None:
    async with _service() as (services, live):
        key = next(node.key for node in live.nodes if isinstance(node.data, dict))
        approval = await _proposed(services, key, "Approved")
        await services.approvals.decide(approval.id, Approve(), EDITOR)
        other = next(node for node in live.nodes if node.key != key and isinstance(node.data, dict))
        await live.edit("ann", None, apply_instructions, [rename(other.key, "Mine", sheet=other.sheet)])
        await services.approvals.undo(GRAPH, by=EDITOR)
        data = {node.key: str(node.data) for node in live.nodes}
        assert "Approved" not in data[key]
        assert "Mine" in data[other.key]


async def test_a_source_that_deletes_a_graph_ends_its_editing_and_journal() -> None:
    async with _service() as (services, live):
        await _renamed(live, "x")
        await services.source.delete_graph(GRAPH)
        assert live.is_closed
        assert await services.database.records("test").query("journal") == []
