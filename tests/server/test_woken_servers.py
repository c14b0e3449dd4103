"""A client learns at once what happened at another server, and without notices at intervals."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from graphrag.app import wiring
from graphrag.app.databases import open_database, prepare_database
from graphrag.approvals import Approve, Person, Reject
from server.change_feed import StoreWatch
from server.ws import WsOptions
from server.ws_ai import AiLimits
from tests.server.test_ws_ai import chat, propose
from tests.support.agents import an_ask
from tests.support.chosen_database import address_in
from tests.support.databases import put_sample
from tests.support.postgres import PostgresServer
from tests.support.scripted_provider import Says, ScriptedProvider
from tests.support.short_waits import HOURS_S
from tests.support.told_database import Channel, ToldDatabase
from tests.support.waiting import until
from tests.support.ws_server import GRAPH, Running, token, ws_server

REVIEWER = Person("rev", "reviewer", "default")
NO_LOOKS = WsOptions(ai=AiLimits(look_s=HOURS_S))


@pytest.fixture(params=["told", pytest.param("postgres", marks=pytest.mark.slow)])
def db(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a database with the sample graph that tells changes."""
    if request.param == "told":
        telling_file(monkeypatch)
        return address_in(request.getfixturevalue("file"))
    url = str(request.getfixturevalue("postgres_url"))
    asyncio.run(filled(url))
    return url


async def filled(url: str) -> None:
    """Stores the sample graph."""
    async with open_database(url, "default") as database:
        await put_sample(database)


def telling_file(monkeypatch: pytest.MonkeyPatch) -> Channel:
    """Lets all servers of a file tell each other changes by a channel."""
    channel = Channel()

    def told(url: str, workspace: str) -> ToldDatabase:
        return ToldDatabase(open_database(url, workspace), channel)

    monkeypatch.setattr(wiring, "open_database", told)
    return channel


@asynccontextmanager
async def two_servers(db: str, model: ScriptedProvider) -> AsyncGenerator[tuple[Running, Running]]:
    """Yields two servers on one database that listen; the first has the model."""
    async with AsyncExitStack() as stack:
        a, b = [
            await stack.enter_async_context(ws_server(each, db=db, options=NO_LOOKS))
            for each in (model, ScriptedProvider())
        ]
        await until(lambda: all(is_connected(server) for server in (a, b)))
        yield a, b


def is_connected(server: Running) -> bool:
    return b"nodius_notices_connected 1.0" in server.state.monitoring.metrics.text()


@pytest.mark.usefixtures("no_looks")
async def test_a_proposal_and_its_decision_are_shown_at_another_server(
    db: str,
) -> None:
    async with (
        ScriptedProvider(propose(), "Done.") as model,
        two_servers(db, model) as (a, b),
        a.client(token()) as asking,
        b.client(token("rev", "reviewer")) as watching,
    ):
        await watching.send("ai:watch", _id=1)
        assert (await watching.until("ai:review", 1))["waiting"] == {}
        pending = json.loads((await chat(asking, 1))[-1]["fullText"])
        assert (await watching.until("ai:review", 1))["waiting"] == {GRAPH: 1}
        services = await b.state.services("default")
        await services.approvals.decide(pending["approvals"][0]["id"], Approve(), REVIEWER)
        assert (await watching.until("ai:review", 1))["decided"]
        assert "ai:apply_action" in [message["type"] for message in await asking.turn(1)]


@pytest.mark.usefixtures("no_looks")
async def test_what_a_server_hears_of_itself_is_reported_once(db: str) -> None:
    async with (
        ScriptedProvider() as model,
        two_servers(db, model) as (a, _),
        a.client(token("rev", "reviewer")) as watching,
    ):
        await watching.send("ai:watch", _id=1)
        reviews = [await watching.until("ai:review", 1)]
        approvals = (await a.state.services("default")).approvals
        for level in ("warning", "debug"):
            payload = {"nodeKey": "error-handler", "changes": {"data.level": level}}
            asked = an_ask(tool_call_id=level, reason="because")
            made = await approvals.propose({"type": "update_node", "payload": payload}, asked)
            reviews.append(await watching.until("ai:review", 1))
            await approvals.decide(made.id, Reject(feedback="Not now."), REVIEWER)
            reviews.append(await watching.until("ai:review", 1))
    facts = [(sum(review["waiting"].values()), len(review["decided"])) for review in reviews]
    assert facts == [(0, 0), (1, 0), (0, 1), (1, 0), (0, 1)]


@pytest.mark.usefixtures("no_looks")
async def test_a_turn_at_another_server_is_announced(
    db: str,
) -> None:
    held = asyncio.Event()
    async with (
        ScriptedProvider("One.", Says(text="Two.", held=held)) as model,
        two_servers(db, model) as (a, b),
        a.client(token()) as asking,
        b.client(token()) as following,
    ):
        thread = (await chat(asking, 1))[-1]["threadId"]
        await following.send("ai:follow", _id=7, threadId=thread)
        await following.until("ai:following", 7)
        await asking.send("ai:chat", _id=2, graphKey=GRAPH, message="m", threadId=thread)
        assert (await following.until("ai:follow_turn", 7))["here"] is False
        held.set()
        await asking.turn(2)


@pytest.mark.usefixtures("no_looks")
async def test_a_conversation_is_shown_at_another_server(
    db: str,
) -> None:
    held = asyncio.Event()
    async with (
        ScriptedProvider(Says(text="One.", held=held)) as model,
        two_servers(db, model) as (a, b),
        a.client(token()) as asking,
        b.client(token()) as watching,
    ):
        await watching.send("ai:sessions", _id=7)
        await watching.until("ai:sessions", 7)
        await asking.send("ai:chat", _id=1, graphKey=GRAPH, message="m")
        assert (await watching.until("ai:session_state", 7))["phase"] == "calling_ai"
        held.set()
        await asking.turn(1)
        while (await watching.until("ai:session_state", 7))["phase"] != "idle":
            pass


async def test_without_notices_changes_are_seen_at_intervals_and_metrics_say_so(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = telling_file(monkeypatch)
    async with (
        ScriptedProvider(propose()) as model,
        two_servers(address_in(file), model) as (a, b),
        a.client(token()) as asking,
        b.client(token("rev", "reviewer")) as watching,
    ):
        metrics = b.state.monitoring.metrics
        channel.lose()
        assert b"nodius_notices_connected 0.0" in metrics.text()
        assert b"nodius_notices_lost_total 1.0" in metrics.text()
        await watching.send("ai:watch", _id=1)
        assert (await watching.until("ai:review", 1))["waiting"] == {}
        await chat(asking, 1)
        assert (await watching.until("ai:review", 1))["waiting"] == {GRAPH: 1}, "seen by a look"
        assert b'nodius_notices_total{kind="approval"}' not in metrics.text()


async def test_a_regained_connection_lets_everything_be_read_once(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StoreWatch, "look_s", HOURS_S)
    channel = telling_file(monkeypatch)
    async with (
        ScriptedProvider(propose()) as model,
        two_servers(address_in(file), model) as (a, b),
        a.client(token()) as asking,
        b.client(token("rev", "reviewer")) as watching,
    ):
        await watching.send("ai:watch", _id=1)
        assert (await watching.until("ai:review", 1))["waiting"] == {}
        channel.lose()
        await chat(asking, 1)
        channel.regain()
        assert (await watching.until("ai:review", 1))["waiting"] == {GRAPH: 1}
        assert is_connected(b)


@pytest.mark.slow
@pytest.mark.usefixtures("no_looks")
async def test_servers_listen_again_after_the_database_was_killed(
    postgres_servers: Callable[..., PostgresServer],
) -> None:
    server = postgres_servers()
    db = server.url(server.create_database())
    await prepare_database(db, "default")
    await filled(db)
    async with (
        ScriptedProvider(propose()) as model,
        two_servers(db, model) as (a, b),
        a.client(token()) as asking,
        b.client(token("rev", "reviewer")) as watching,
    ):
        await watching.send("ai:watch", _id=1)
        assert (await watching.until("ai:review", 1))["waiting"] == {}
        await asyncio.to_thread(server.kill)
        await until(lambda: not is_connected(a) and not is_connected(b))
        server.start()
        await until(lambda: is_connected(a) and is_connected(b))
        await chat(asking, 1)
        assert (await watching.until("ai:review", 1))["waiting"] == {GRAPH: 1}
