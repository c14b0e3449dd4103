"""`nodius stream` and the client under it, against a real server."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from graphrag.approvals import Person, Reject
from graphrag.client.rest import ServiceError, ServiceUnreachable
from graphrag.client.websocket import NodiusStream, websocket_address
from server import event_stream
from server.event_stream import EventStream, frame
from server.ws import WsOptions
from server.ws_ai import AiLimits
from tests.server.test_ws_ai import propose
from tests.support.commands import run_command
from tests.support.scripted_provider import Says, ScriptedProvider
from tests.support.waiting import until
from tests.support.ws_server import GRAPH, Running, token, ws_server


def address(server: Running) -> str:
    return f"http://127.0.0.1:{server.port}"


async def nodius(*arguments: str) -> tuple[int, str]:
    """Run `nodius stream` beside the server; return exit code and output."""
    done = await asyncio.to_thread(run_command, "stream", *arguments)
    return done.exit_code, done.stdout


async def ends(turn: Any) -> dict[str, Any]:
    return [message async for message in turn][-1]


async def test_the_command_shows_an_answer_and_json_lines(tmp_path: Path) -> None:
    signed = tmp_path / "token"
    signed.write_text(token() + "\n")
    async with ScriptedProvider("The answer.", "Again.") as model, ws_server(model) as server:
        where = ("--url", address(server), "--token-file", str(signed))
        shown = await nodius(GRAPH, "hello", *where)
        lines = await nodius(GRAPH, "hello", *where, "--json")
        nowhere = await nodius("nowhere", "hello", *where)
    assert (shown[0], shown[1].strip()) == (0, "The answer."), shown
    messages = [json.loads(line) for line in lines[1].splitlines()]
    assert [m["type"] for m in messages][-1] == "ai:complete"
    assert nowhere[0] == 3


async def test_the_command_decides_as_its_option_says(tmp_path: Path) -> None:
    signed = tmp_path / "token"
    signed.write_text(token())
    async with ScriptedProvider(propose(), "Done.") as model, ws_server(model) as server:
        where = ("--url", address(server), "--token-file", str(signed), "--decide", "approve")
        code, out = await nodius(GRAPH, "change it", *where)
        services = await server.state.services("default")
        (node,) = await services.source.get_nodes_by_key(GRAPH, ["root"])
    assert code == 0
    assert "Done." in out
    assert node.process == "return 1;"


async def test_turns_of_one_client_run_side_by_side_and_are_stopped_alone() -> None:
    first = asyncio.Event()
    second = asyncio.Event()
    with ScriptedProvider(Says(text="A", held=first), Says(text="B", held=second)) as model:
        async with (
            ws_server(model) as server,
            NodiusStream(address(server), token=token()) as stream,
        ):
            one = await stream.chat(GRAPH, "one")
            async for message in one:
                if message["type"] == "ai:token":  # the model has begun the first answer
                    two = await stream.chat(GRAPH, "two")
                    await one.interrupt()
            assert message["stopped"]
            second.set()
            assert (await ends(two))["fullText"] == "B"


async def test_a_turn_goes_on_after_a_decision_elsewhere() -> None:
    quick = WsOptions(ai=AiLimits(poll_s=0.02))
    with ScriptedProvider(propose(), "Rejected, then.") as model:
        async with (
            ws_server(model, options=quick) as server,
            NodiusStream(address(server), token=token()) as s,
        ):
            turn = await s.chat(GRAPH, "change it")
            pending = json.loads((await ends(turn))["fullText"])
            services = await server.state.services("default")
            reviewer = Person("rev", "reviewer", "default")
            await services.approvals.decide(pending["approvals"][0]["id"], Reject("no"), reviewer)
            assert (await ends(turn))["fullText"].endswith("Rejected, then.")


async def test_a_bad_token_and_a_missing_service_are_different_errors() -> None:
    async with ws_server() as server:
        with pytest.raises(ServiceError, match="auth_error"):
            await NodiusStream(address(server), token="forged").__aenter__()
        stopped = address(server)
    with pytest.raises(ServiceUnreachable):
        await NodiusStream(stopped, token=token()).__aenter__()


async def test_a_turn_ends_in_an_error_when_the_service_goes() -> None:
    async with ws_server(ScriptedProvider(Says(held=asyncio.Event()))) as server:
        stream = await NodiusStream(address(server), token=token()).__aenter__()
        turn = await stream.chat(GRAPH, "hello")
        waiting = asyncio.create_task(ends(turn))
        await until(lambda: len(server.app.state.server.activity.turns))
    with pytest.raises(ServiceUnreachable, match="ended"):
        await waiting
    await stream.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://127.0.0.1:8426", "ws://127.0.0.1:8426/ws"),
        ("https://host/base/", "wss://host/base/ws"),
        ("ws://host:1/ws", "ws://host:1/ws"),
    ],
)
def test_the_websocket_address_of_a_service(given: str, expected: str) -> None:
    assert websocket_address(given) == expected


SCOPE: dict[str, Any] = {"type": "http", "method": "POST", "path": "/"}


class Frames:
    """Frames without end; notes when they are closed."""

    def __init__(self, *, silent: bool = False) -> None:
        self.closed = False
        self.silent = silent

    async def __call__(self) -> AsyncGenerator[str]:
        try:
            while True:
                yield frame('{"n": 1}')
                if self.silent:
                    await asyncio.Event().wait()
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)  # it stores something
            self.closed = True


def told(exc: Exception) -> list[str]:
    return [frame(f'{{"failed": "{type(exc).__name__}"}}')]


async def never() -> Any:
    await asyncio.Event().wait()


async def test_the_frames_of_a_client_that_goes_are_closed() -> None:
    frames = Frames()
    gone = asyncio.Event()
    sent = list[bytes]()

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        if len(sent) == 3:
            gone.set()

    await EventStream(frames(), failed=told)(SCOPE, receive, send)
    assert frames.closed
    assert sent[1] == b'data: {"n": 1}\n\n'


async def test_the_frames_of_a_client_that_takes_nothing_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_stream, "STALLED_S", 0.01)
    frames = Frames()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await never()

    with pytest.raises(ClientDisconnect):
        await EventStream(frames(), failed=told)(SCOPE, never, send)
    assert frames.closed


async def test_a_silent_answer_is_kept_alive_by_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_S", 0.001)
    frames = Frames(silent=True)
    alive = asyncio.Event()

    async def receive() -> Any:
        await alive.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message.get("body", b"").startswith(b":"):
            alive.set()

    async with asyncio.timeout(20):
        await EventStream(frames(), failed=told)(SCOPE, receive, send)
    assert frames.closed


async def test_the_end_of_the_server_closes_the_frames() -> None:
    frames = Frames(silent=True)
    began = asyncio.Event()

    async def send(message: Any) -> None:
        if message.get("body"):
            began.set()

    answering = asyncio.create_task(EventStream(frames(), failed=told)(SCOPE, never, send))
    await began.wait()
    answering.cancel()
    await asyncio.gather(answering, return_exceptions=True)
    assert frames.closed


@pytest.mark.parametrize("broken", ["a raise", "\ud83d", "a raise in first"])
async def test_whatever_fails_in_an_answer_its_last_frame_says_so_and_the_body_ends(
    broken: str,
) -> None:
    sent: list[dict[str, Any]] = []

    async def frames() -> AsyncGenerator[str]:
        yield frame('{"n": 1}')
        if broken.startswith("a raise"):
            raise RuntimeError
        yield frame(broken)

    async def send(message: Any) -> None:
        sent.append(message)

    body = frames()
    first = ""
    if broken == "a raise in first":
        first = await anext(body)
    await EventStream(body, failed=told, first=first)(SCOPE, never, send)
    assert b'"failed"' in sent[-2]["body"]
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
