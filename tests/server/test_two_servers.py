"""Two servers on one database: a thread goes on at the other one, a lease that lapsed saves
nothing, a killed server is replaced.
"""

import asyncio
import json
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from datasources.arango import ArangoDatabase, parse_address
from graphrag.agent.thread_store import Threads
from graphrag.app.databases import open_database
from graphrag.approvals import Approve, Person
from graphrag.live import LiveElsewhere
from graphrag.llm.base import AssistantMessage, UserMessage
from server.ws import WsOptions
from server.ws_ai import AiLimits
from tests.graphrag.live.helpers import a_bench
from tests.server.test_ws_ai import chat, propose
from tests.server.test_ws_sync import LATE, apply, move, node, register
from tests.support.chosen_database import address_in
from tests.support.databases import put_sample
from tests.support.scripted_http import Answer, ScriptedServer
from tests.support.scripted_provider import Says, ScriptedProvider
from tests.support.valid_history import check_valid
from tests.support.waiting import until
from tests.support.ws_server import GRAPH, Client, token, ws_server

LONG = 3_600_000


async def prepared(address: str) -> None:
    """Store the sample graph."""
    async with ArangoDatabase(parse_address(address)) as database:
        await put_sample(database)


@pytest.fixture(params=["sqlite", pytest.param("arango", marks=pytest.mark.slow)])
def db(request: pytest.FixtureRequest) -> str:
    """The address of a database with the sample graph."""
    if request.param == "sqlite":
        return address_in(request.getfixturevalue("file"))
    asyncio.run(prepared(address := request.getfixturevalue("arango_address")))
    return address


async def test_a_thread_goes_on_at_another_server_and_runs_at_one_only(db: str) -> None:
    held = asyncio.Event()
    with (
        ScriptedProvider("One.", Says(text="Two.", held=held)) as first,
        ScriptedProvider("Three.") as second,
    ):
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(ws_server(first, db=db))
            b = await stack.enter_async_context(ws_server(second, db=db))
            at_a = await stack.enter_async_context(a.client(token()))
            at_b = await stack.enter_async_context(b.client(token()))
            thread = (await chat(at_a, 1))[-1]["threadId"]
            await at_a.send("ai:chat", _id=2, graphKey=GRAPH, message="more", threadId=thread)
            await at_a.until("ai:token", 2)
            refused = (await chat(at_b, 1, threadId=thread))[-1]
            assert (refused["type"], refused["code"], refused["retryable"]) == (
                "ai:error",
                "busy",
                True,
            )
            assert refused["details"]["threadId"] == thread
            held.set()
            assert (await at_a.turn(2))[-1]["fullText"] == "Two."
            assert (await chat(at_b, 2, threadId=thread))[-1]["fullText"] == "Three."


async def test_a_turn_is_stopped_through_another_server(db: str) -> None:
    async with (
        ScriptedProvider(Says(text="Two.", held=asyncio.Event())) as model,
        AsyncExitStack() as stack,
    ):
        a = await stack.enter_async_context(ws_server(model, db=db))
        b = await stack.enter_async_context(ws_server(db=db))
        at_a = await stack.enter_async_context(a.client(token()))
        at_b = await stack.enter_async_context(b.client(token()))
        foreign = await stack.enter_async_context(b.client(token("b")))
        await at_a.send("ai:chat", _id=1, graphKey=GRAPH, message="more")
        await at_a.until("ai:token", 1)
        services = await a.state.services("default")
        (thread,) = await services.threads.list(Person("ed", "editor", "default"))
        refused = await foreign.ask("ai:interrupt", _id=1, threadId=thread.key)
        assert refused["code"] == "not_found"
        await at_b.send("ai:interrupt", _id=1, threadId=thread.key)
        last = (await at_a.turn(1))[-1]
    assert (last["type"], last["fullText"], last["stopped"]) == ("ai:complete", "Two.", True)


async def test_a_proposal_decided_at_one_server_reaches_who_waits_at_another(db: str) -> None:
    quick = WsOptions(ai=AiLimits(poll_s=0.02))
    async with ScriptedProvider(propose(), "Done.") as model, AsyncExitStack() as stack:
        a = await stack.enter_async_context(ws_server(model, db=db, options=quick))
        b = await stack.enter_async_context(ws_server(ScriptedProvider(), db=db))
        client = await stack.enter_async_context(a.client(token()))
        pending = json.loads((await chat(client, 1))[-1]["fullText"])
        services = await b.state.services("default")
        person = Person("rev", "reviewer", "default")
        await services.approvals.decide(pending["approvals"][0]["id"], Approve(), person)
        turn = await client.turn(1)
    assert "ai:apply_action" in [m["type"] for m in turn]


async def test_a_graph_is_edited_through_one_server_at_a_time_and_then_through_another(
    db: str,
) -> None:
    fields: dict[str, Any] = {"name": "B", "sheetId": "0", "graphKey": GRAPH, "fromTimestamp": LATE}
    async with AsyncExitStack() as stack:
        b = await stack.enter_async_context(ws_server(db=db))
        at_b = await stack.enter_async_context(b.client(token("b")))
        async with ws_server(db=db) as a, a.client(token()) as at_a:
            await register(at_a)
            refused = await at_b.ask("registerUserOnGraph", _id=1, **fields)
            assert not refused["_response"]["status"]
            assert "another server" in refused["_response"]["message"]
            assert refused["_response"]["code"] == "busy"
            assert (await apply(at_a, move("root", 3)))["_response"]["status"]
        joined = await at_b.ask("registerUserOnGraph", _id=2, **fields)
        assert joined["_response"]["status"]
        services = await b.state.services("default")
        (root,) = await services.source.get_nodes_by_key(GRAPH, ["root"])
        assert root.pos_x == 3


async def test_a_server_whose_lease_lapsed_saves_nothing_whatever_its_clock_says(
    arango_address: str,
) -> None:
    address = parse_address(arango_address)
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(ArangoDatabase(address))
        second = await stack.enter_async_context(ArangoDatabase(address))
        async with a_bench(first) as late:
            await late.rename("b", "late")
            async with a_bench(second, later_ms=LONG) as owner:
                before = (await owner.stored.get_graph("flow")).revision
                with pytest.raises(LiveElsewhere):
                    await late.live.save()
                assert (await owner.stored.get_graph("flow")).revision == before
                await owner.live.save()
                assert (await owner.stored_node("b")).data == {"name": "late"}


async def edit_until_gone(client: Client, acknowledged: dict[str, float]) -> None:
    number = 0
    while True:
        number += 1
        key = f"made{number}"
        try:
            made = await client.ask(
                "batchCreateElements",
                _id=number,
                sheetId="0",
                nodes=[node(key, posX=number)],
                edges=[],
            )
        except ConnectionClosed:
            return
        assert made["_response"]["status"]
        acknowledged[key] = number


def free_port() -> int:
    """Returns a port that nobody listens at.

    It lies below the ports that systems choose themselves (32768 and up on Linux): one of those may
    be given to a server of another test before the process that is started here listens at it.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


async def opened(port: int) -> Any:
    """Connect as soon as the server answers."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await connect(f"ws://127.0.0.1:{port}/ws", proxy=None)
            except OSError:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def a_process(
    db: str,
    model: str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> AsyncIterator[tuple[Any, int]]:
    """Run `nodius serve` without sign-in in a process of its own; yield it and its port.

    `{port}` in a variable is the port; what the process logs goes to the file `log`.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NODIUS_")}
    flags = ["--provider", "offline" if model is None else "compatible"]
    more = (
        {} if model is None else {"NODIUS_LLM_BASE_URL": f"{model}/v1", "NODIUS_MODEL": "scripted"}
    )
    port = free_port()
    more |= {name: value.format(port=port) for name, value in (environment or {}).items()}
    with nullcontext(None) if log is None else log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from cli.main import run; run()",
            "serve", "--port", str(port), "--db", db, *flags,
            env={**kept, "NODIUS_EMBEDDINGS": "none", **more}, stdout=asyncio.subprocess.DEVNULL,
            stderr=stderr,
        )  # fmt: skip
    try:
        yield process, port
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def streamed(*texts: str, ends: bool = True) -> list[bytes]:
    """Return what a model's server sends, piece by piece."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({**body, 'choices': [choice]})}\n\n".encode()

    pieces = [chunk({"role": "assistant", "content": text}) for text in texts]
    return [*pieces, chunk({}, "stop"), b"data: [DONE]\n\n"] if ends else pieces


EVENTS = {"content-type": "text/event-stream"}


@pytest.mark.slow
async def test_a_turn_whose_server_is_killed_is_completed_by_another(arango_address: str) -> None:
    db = arango_address
    await prepared(db)
    with ScriptedServer() as model:
        model.play(Answer(pieces=streamed("Half an ", ends=False), headers=EVENTS, fault="hang"))
        async with (
            a_process(db, model.url) as (first, port_a),
            a_process(db, model.url) as (_, port_b),
        ):
            async with await opened(port_a) as connection:
                client = Client(connection)
                await client.send("ai:chat", _id=1, graphKey=GRAPH, message="Is this stored?")
                await until(lambda: len(model.requests) == 1)
                first.send_signal(signal.SIGKILL)
                await first.wait()
            async with ArangoDatabase(parse_address(db)) as database:
                threads = Threads(database.records("default"))
                by = Person("local", "admin", "default")
                (running,) = await threads.list(by)
                assert running.turn.status == "running"
                model.play(Answer(pieces=streamed("A whole answer."), headers=EVENTS))
                async with await opened(port_b) as connection:
                    client = Client(connection)
                    last = (
                        await client.talk("ai:resume", _id=1, threadId=running.key, approved=True)
                    )[-1]
                assert (last["type"], last["fullText"]) == ("ai:complete", "A whole answer.")
                stored = (await threads.get(running.key, by)).thread
                check_valid(stored.messages)
                assert stored.turn.status == "idle"
                said = [m for m in stored.messages if isinstance(m, UserMessage | AssistantMessage)]
                assert [m.content for m in said] == ["Is this stored?", "A whole answer."]


async def until_recovered(db: str) -> None:
    """Waits until a server has saved what was journalled. A database may lock what the dead one was
    writing, for a minute.
    """
    async with open_database(db, "default") as database, asyncio.timeout(120):
        while await database.records("default").query("journal"):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_every_acknowledged_edit_survives_a_killed_server(db: str) -> None:
    acknowledged: dict[str, float] = {}
    async with a_process(db) as (process, port), await opened(port) as connection:
        client = Client(connection)
        await register(client)
        editing = asyncio.create_task(edit_until_gone(client, acknowledged))
        await until(lambda: len(acknowledged) >= 40)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await editing
    async with a_process(db) as (process, port):
        async with await opened(port):
            await until_recovered(db)
        process.send_signal(signal.SIGINT)
        await process.wait()
    async with open_database(db, "default") as database:
        nodes = {node.key: node for node in await database.source("default").get_nodes(GRAPH)}
    assert not {key for key, x in acknowledged.items() if key not in nodes or nodes[key].pos_x != x}
    assert len(acknowledged) >= 40
