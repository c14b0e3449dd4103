"""What a server does beside requests: bounded for each workspace, thread and turn, and
fair among them.
"""

import asyncio
import gc
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from datasources.errors import SourceUnavailable
from datasources.types import Mutation
from graphrag.approvals import Approvals, Reject
from graphrag.automations.last_seen import DAY_MS, Members
from graphrag.client.websocket import NodiusStream
from graphrag.leases import now_ms
from graphrag.roles import Person
from server import housekeeping, open_workspaces
from server.review_feed import decided_elsewhere
from tests.benchmarks import live_editing, streaming
from tests.contracts.samples import a_graph, a_node
from tests.support.agents import an_ask
from tests.support.chosen_database import address_in, database_in
from tests.support.served import served
from tests.support.service import CHANGE, GRAPH, Service, service, token
from tests.support.waiting import until

ED = Person("ed", "editor", "default")
PATIENCE_S = 30.0


async def proposed(approvals: Approvals, number: int, thread_id: str = "") -> str:
    payload = {"nodeKey": CHANGE["nodeKey"], "changes": {"data.level": f"level-{number}"}}
    action = {"type": "update_node", "payload": payload}
    made = await approvals.propose(
        action,
        an_ask(asker=ED, thread_id=thread_id or f"thread-{number}", tool_call_id=f"call-{number}"),
    )
    return made.id


@pytest.mark.slow
async def test_of_many_workspaces_few_stay_open_and_one_in_use_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_workspaces, "KEPT", 3)
    async with service() as running:
        used = await running.state.workspace("used")
        idle = weakref.ref(await running.state.workspace("idle"))
        for number in range(10):
            await running.state.workspace(f"w{number}")
        gc.collect()
        assert idle() is None
        assert len(running.state.backend.workspaces.all_open()) <= 3 + 1
        assert await running.state.workspace("used") is used


async def test_proposals_expire_without_a_request_and_a_workspace_that_fails_holds_no_other_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeping, "EXPIRY_S", 0.01)
    closed = asyncio.Event()
    async with service() as running:
        first = (await running.state.workspace("broken")).services.approvals
        second = (await running.state.services("default")).approvals

        async def failing(*, limit: int) -> Any:
            raise SourceUnavailable(source="it", reason="gone")

        monkeypatch.setattr(first, "expire_due", failing)
        expire = second.expire_due

        async def expired(*, limit: int) -> Any:
            done = await expire(limit=limit)
            if done:
                closed.set()
            return done

        monkeypatch.setattr(second, "expire_due", expired)
        approval_id = await proposed(second, 1)
        later = now_ms() + 25 * 3600 * 1000
        monkeypatch.setattr(second.context, "clock", lambda: later)
        async with asyncio.timeout(PATIENCE_S):
            await closed.wait()
        stored = await second.context.stored(approval_id)
        assert stored.status == "expired"


async def test_a_workspace_that_recovers_for_long_delays_no_question_and_no_embedding_of_another() -> (
    None
):
    async with service() as running:
        live = running.state.backend.live
        queue = running.state.backend.shared.embedding_queue
        recover = live.recover
        begun = asyncio.Event()
        go_on = asyncio.Event()

        async def slow(workspace: str) -> list[str]:
            if workspace == "large":
                begun.set()
                await go_on.wait()
            return await recover(workspace)

        live.recover = slow  # type: ignore[method-assign]
        large = asyncio.create_task(running.state.workspace("large"))
        await begun.wait()
        async with asyncio.timeout(PATIENCE_S):
            other = (await running.state.workspace("other")).services
            await other.source.create_graph(a_graph("g", "other"))
            node = a_node("n", "g", data={"name": "Invoices"})
            await other.source.apply(Mutation(graph_key="g", put_nodes=[node]))
            queue.add("other", "g", ["n"])
            assert [
                found.node.key for found in await other.retriever.search("g", "invoices", limit=1)
            ] == ["n"]
            await until(lambda: not queue.pending("other"))
            assert not large.done()
            go_on.set()
            await large


async def test_workspaces_take_turns_until_all_expired_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeping, "EXPIRY_S", 0.01)
    monkeypatch.setattr(housekeeping, "EXPIRED_AT_ONCE", 2)
    left = {"many": 5, "few": 1}
    turns = list[str]()
    done = asyncio.Event()
    async with service() as running:
        held = [await running.state.workspace(name) for name in left]

        def closing(name: str) -> Any:
            async def expire_due(*, limit: int) -> list[None]:
                closed = min(left[name], limit)
                left[name] -= closed
                turns.append(name)
                if not any(left.values()):
                    done.set()
                return [None] * closed

            return expire_due

        for name, workspace in zip(left, held, strict=True):
            monkeypatch.setattr(workspace.services.approvals, "expire_due", closing(name))
        async with asyncio.timeout(PATIENCE_S):
            await done.wait()
    assert turns[:4] == ["many", "few", "many", "many"]


async def test_threads_that_wait_are_looked_at_when_there_is_news_of_them_alone() -> None:
    looks: Counter[str] = Counter()
    async with service() as running:
        workspace = await running.state.workspace("default")
        approvals = workspace.services.approvals
        feed = workspace.reviews
        feed.look_s = 0.01
        ids = [await proposed(approvals, number) for number in range(10)]
        get = approvals.get
        looked = asyncio.Event()

        async def counted(approval_id: str, by: Person) -> Any:
            looks[approval_id] += 1
            if looks.total() == len(ids):
                looked.set()
            return await get(approval_id, by)

        approvals.get = counted  # type: ignore[method-assign]
        waits = [
            asyncio.create_task(
                decided_elsewhere(
                    reviews=feed,
                    approvals=approvals,
                    threads=workspace.services.threads,
                    thread_id=f"thread-{number}",
                    approval_ids=[approval_id],
                    person=ED,
                    is_busy=lambda: False,
                    poll_s=0.01,
                )
            )
            for number, approval_id in enumerate(ids)
        ]
        await looked.wait()
        with feed.reading() as next_change:
            await next_change()
            await approvals.decide(ids[3], Reject(), Person("ann", "admin", "default"))
            await next_change()
        async with asyncio.timeout(PATIENCE_S):
            assert await waits[3] is False  # there is no such thread
        assert looks == Counter(dict.fromkeys(ids, 1) | {ids[3]: 2})
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        assert feed.readers == 0


async def test_approvals_of_one_asker_are_found_by_it() -> None:
    async with service() as running:
        approvals = (await running.state.services("default")).approvals
        for number in range(3):
            await proposed(approvals, number)
        assert await asked(running, "ed") == 3
        assert await asked(running, "ann") == 0


async def asked(running: Service, asker: str) -> int:
    async with running.as_("ann", "admin") as ann:
        return len((await ann.get("/api/approvals", params={"asker": asker})).json()["approvals"])


@pytest.mark.slow
async def test_a_stream_forgets_the_turns_that_nobody_reads() -> None:
    async with served() as running, NodiusStream(running.address, token=token()) as stream:
        for _ in range(20):
            async for _message in await stream.chat(GRAPH, "what is here?"):
                pass
        gc.collect()
        assert len(stream._turns) <= 1


@pytest.mark.slow
async def test_many_streamed_answers_are_whole_and_in_order() -> None:
    figures = await streaming.measure(40, 30, 20)
    assert figures["first_p50_ms"] > 0


@pytest.mark.slow
async def test_many_editors_see_every_edit_once_in_order() -> None:
    figures = await live_editing.measure(15, 10, 3)
    assert (figures["edits"], figures["seen"]) == (450, 6300)


async def test_a_server_forgets_who_was_not_seen_for_the_term_of_history(tmp_path: Path) -> None:
    async with database_in(tmp_path / "nodius.db") as database:
        for name, days in (("ann", 200), ("bob", 100)):
            at = now_ms() - days * DAY_MS
            await Members(database.records("default"), clock=lambda at=at: at).note(
                Person(name, "viewer", "default")
            )
    async with service(db=address_in(tmp_path / "nodius.db")) as running:
        records = running.state.backend.shared.database.records("default")
        async with asyncio.timeout(PATIENCE_S):
            while await records.get("member", "ann") is not None:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.01)
        assert await records.get("member", "bob") is not None
