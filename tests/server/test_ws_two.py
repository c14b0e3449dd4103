"""Two servers on one database file; and a server that is killed while people edit."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from datasources.sqlite import SqliteDatabase
from graphrag.approvals import Approve, Person
from server.ws import WsOptions
from server.ws_ai import AiLimits
from tests.server.test_ws_ai import chat, propose
from tests.server.test_ws_sync import LATE, apply, move, node, register
from tests.support.scripted_provider import Says, ScriptedProvider
from tests.support.ws_server import GRAPH, Client, token, ws_server


async def test_a_thread_goes_on_at_another_server_and_runs_at_one_only(file: Path) -> None:
    held = asyncio.Event()
    with (
        ScriptedProvider("One.", Says(text="Two.", held=held)) as first,
        ScriptedProvider("Three.") as second,
    ):
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(ws_server(first, db=f"sqlite:{file}"))
            b = await stack.enter_async_context(ws_server(second, db=f"sqlite:{file}"))
            at_a = await stack.enter_async_context(a.client(token()))
            at_b = await stack.enter_async_context(b.client(token()))
            thread = (await chat(at_a, 1))[-1]["threadId"]
            await at_a.send("ai:chat", _id=2, graphKey=GRAPH, message="more", threadId=thread)
            await at_a.until("ai:token", 2)
            refused = (await chat(at_b, 1, threadId=thread))[-1]
            assert (refused["type"], refused["code"], refused["retryable"]) == ("ai:error", "busy", True)
            held.set()
            assert (await at_a.turn(2))[-1]["fullText"] == "Two."
            assert (await chat(at_b, 2, threadId=thread))[-1]["fullText"] == "Three."


async def test_a_turn_is_stopped_through_another_server(file: Path) -> None:
    with ScriptedProvider(Says(text="Two.", held=asyncio.Event())) as model:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(ws_server(model, db=f"sqlite:{file}"))
            b = await stack.enter_async_context(ws_server(db=f"sqlite:{file}"))
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


async def test_a_proposal_decided_at_one_server_reaches_who_waits_at_another(file: Path) -> None:
    quick = WsOptions(ai=AiLimits(poll_s=0.02))
    with ScriptedProvider(propose(), "Done.") as model:
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(ws_server(model, db=f"sqlite:{file}", options=quick))
            b = await stack.enter_async_context(ws_server(ScriptedProvider(), db=f"sqlite:{file}"))
            client = await stack.enter_async_context(a.client(token()))
            pending = json.loads((await chat(client, 1))[-1]["fullText"])
            services = await b.state.services("default")
            person = Person("rev", "reviewer", "default")
            await services.approvals.decide(pending["approvals"][0]["id"], Approve(), person)
            turn = await client.turn(1)
    assert "ai:apply_action" in [m["type"] for m in turn]


async def test_a_graph_is_edited_through_one_server_at_a_time(file: Path) -> None:
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(ws_server(db=f"sqlite:{file}"))
        b = await stack.enter_async_context(ws_server(db=f"sqlite:{file}"))
        at_a = await stack.enter_async_context(a.client(token()))
        at_b = await stack.enter_async_context(b.client(token("b")))
        await register(at_a)
        fields: dict[str, Any] = {"name": "B", "sheetId": "0", "graphKey": GRAPH, "fromTimestamp": LATE}
        refused = await at_b.ask("registerUserOnGraph", _id=1, **fields)
        assert not refused["_response"]["status"]
        assert "another server" in refused["_response"]["message"]
        assert refused["_response"]["code"] == "busy"
        assert (await apply(at_a, move("root", 3)))["_response"]["status"]


@pytest.mark.slow
async def test_every_acknowledged_edit_survives_a_killed_server(file: Path) -> None:
    port = free_port()
    acknowledged: dict[str, float] = {}
    process = await serving(file, port)
    try:
        async with await opened(port) as connection:
            client = Client(connection)
            await register(client)
            editing = asyncio.create_task(edit_until_gone(client, acknowledged))
            async with asyncio.timeout(20):
                while len(acknowledged) < 40:  # noqa: ASYNC110 - the client fills it
                    await asyncio.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            await process.wait()
            await editing
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    process = await serving(file, port)
    try:
        async with await opened(port):
            pass
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()
    async with SqliteDatabase(file) as database:
        nodes = {node.key: node for node in await database.source("default").get_nodes(GRAPH)}
    lost = {key: x for key, x in acknowledged.items() if key not in nodes or nodes[key].pos_x != x}
    assert not lost
    assert len(acknowledged) >= 40


async def edit_until_gone(client: Client, acknowledged: dict[str, float]) -> None:
    number = 0
    while True:
        number += 1
        key = f"made{number}"
        try:
            made = await client.ask(
                "batchCreateElements", _id=number, sheetId="0", nodes=[node(key, posX=number)], edges=[]
            )
        except ConnectionClosed:
            return
        assert made["_response"]["status"]
        acknowledged[key] = number


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


async def serving(file: Path, port: int) -> asyncio.subprocess.Process:
    """Start `nodius serve` without sign-in, in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NODIUS_")}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from cli.main import run; run()",
        "serve", "--port", str(port), "--db", f"sqlite:{file}", "--provider", "offline",
        env={**kept, "NODIUS_EMBEDDINGS": "none"}, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip


async def opened(port: int) -> Any:
    """Connect as soon as the server answers."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await connect(f"ws://127.0.0.1:{port}/ws", proxy=None)
            except OSError:
                await asyncio.sleep(0.05)
