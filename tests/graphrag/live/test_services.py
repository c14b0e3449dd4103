"""The assistant works on what people are editing: it finds unsaved edits, editors see
what is approved.
"""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from datasources.hits import VectorQuery
from datasources.mock import open_nba
from graphrag.app.wiring import Services, open_shared
from graphrag.approvals import Approve, Person
from graphrag.changes.draft import LiveState
from graphrag.config import Settings
from graphrag.embedding.queue import EmbeddingQueue, QueueOptions
from graphrag.importers.exchange import import_bytes
from graphrag.live import LiveGraph, LiveGraphs, working_copy
from graphrag.live.instruction_batch import apply_instructions
from graphrag.live.working_copy import read_stored
from tests.contracts.samples import FLOW, floats
from tests.contracts.searches import search_vectors
from tests.graphrag.embedding.test_queue import Counting
from tests.graphrag.importers.helpers import n8n, n8n_node
from tests.graphrag.live.helpers import NEVER, Bench, a_bench, heard, instruct, rename
from tests.support.agents import an_ask
from tests.support.chosen_database import fresh_database
from tests.support.waiting import drained

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
    return await services.approvals.propose(action, an_ask(asker=EDITOR))


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
        await live.edit(
            "ann", None, apply_instructions, [rename(other.key, "Mine", sheet=other.sheet)]
        )
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


async def test_the_working_copy_is_made_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def made(*given: Any) -> LiveState:
        seen.append(threading.get_ident())
        return LiveState(*given)

    monkeypatch.setattr(working_copy, "LiveState", made)
    async with open_nba("default") as database:
        source = database.source("default")
        state = await read_stored(source, GRAPH)
        assert len(state.nodes) == len(await source.get_nodes(GRAPH))
    (thread,) = seen
    assert thread != threading.get_ident()


EVE = Person("eve", "editor", "test")


def _file(*names: str, **parameters: int) -> bytes:
    return orjson.dumps(n8n([n8n_node(name, parameters=parameters) for name in names]))


async def test_editors_see_an_import_at_once_and_keep_what_they_have_not_saved() -> None:
    settings = Settings(db="memory:", workspace="test", embeddings="none")
    async with (
        open_shared(settings) as shared,
        LiveGraphs(shared.database.source, shared.database.records, options=NEVER) as graphs,
    ):
        services = shared.services("test", live_graphs=graphs)
        await import_bytes(
            services.approvals, _file("A", "B"), EVE, file_name="f.json", graph_key="g"
        )
        live = await graphs.open("test", "g")
        ann = live.join("ann", "0")
        await live.edit("ann", ann, apply_instructions, [rename("a", "Mine")])
        assert live.has_unsaved
        second = _file("A", "B", "C", x=1)
        outcome = await import_bytes(
            services.approvals, second, EVE, file_name="f.json", graph_key="g"
        )
        assert (outcome.action, outcome.kept, outcome.conflicts) == ("updated", 1, 0)
        now = {node.key: node.data for node in live.nodes}
        assert now["a"] == {"name": "Mine", "parameters": {"x": 1}}
        assert set(now) == {"a", "b", "c"}
        assert {
            node.key: node.data for node in await shared.database.source("test").get_nodes("g")
        } == now
        sent = orjson.dumps(heard(ann)).decode()
        assert '"c"' in sent
        assert '"x"' in sent
        await services.approvals.undo("g", by=Person("rita", "reviewer", "test"))
        assert {node.key: node.data["name"] for node in live.nodes} == {"a": "Mine", "b": "B"}


@asynccontextmanager
async def embedding(provider: Counting) -> AsyncIterator[tuple[Bench, EmbeddingQueue]]:
    """Yield a graph edited live, and the queue that embeds what is saved of it."""
    database = await fresh_database()
    options = QueueOptions(retry_s=0, batch=10)
    async with (
        EmbeddingQueue(database.source, provider, options=options) as queue,
        a_bench(database, embed=queue.add) as bench,
    ):
        yield bench, queue


async def test_only_changed_nodes_are_embedded_and_a_move_is_no_change() -> None:
    provider = Counting()
    async with embedding(provider) as (bench, queue):
        await bench.rename("b", "Rewritten")
        await bench.live.save()
        await drained(queue)
        (texts,) = provider.requests
        assert len(texts) == 2  # content and name of one node
        assert "Rewritten" in texts[0]
        assert (
            await search_vectors(
                bench.stored, FLOW, VectorQuery(vector=floats(1, 1), model="counting", limit=5)
            )
        )[0].key == "b"
        await bench.live.edit("ann", None, apply_instructions, [instruct("b", 1, ["posX"], v=50)])
        await bench.live.save()
        await drained(queue)
        assert len(provider.requests) == 1


async def test_saving_and_editing_go_on_while_the_provider_takes_its_time() -> None:
    provider = Counting()
    provider.may_answer.clear()
    async with embedding(provider) as (bench, queue):
        for name in ("one", "two", "three"):
            await bench.rename("b", name)
            await bench.live.save()
        assert (await bench.stored_node("b")).data == {"name": "three"}
        provider.may_answer.set()
        await drained(queue)
        assert "three" in provider.requests[-1][0]
