"""The client of the Realtime interface: what refuses it, what it loses, what it never says."""

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve

from graphrag.bridge.signals import ModelEvent
from graphrag.realtime import openai_side
from graphrag.realtime.model_side import RealtimeRefused, RealtimeUnreachable
from graphrag.realtime.openai_side import OpenAISide
from graphrag.simulator.realtime_double import RealtimeDouble
from tests.graphrag.bridge.fed_call import Call
from tests.graphrag.realtime.conversing import (
    CLIENT,
    KEY,
    SERVER,
    Client,
    at_hand,
    conversing,
    recorded,
)
from tests.support.faulty_double import Faults, FaultyDouble
from tests.support.scripted_mind import ScriptedMind


@asynccontextmanager
async def refusing(*faults: Faults, key: str | None = None) -> AsyncGenerator[RealtimeDouble]:
    async with FaultyDouble(ScriptedMind([]), faults=faults, key=key) as double:
        yield double


@pytest.mark.parametrize(
    "faults",
    [
        *(Faults(refused_status=status) for status in (401, 403, 404)),
        *(Faults(refused_code=code) for code in ("invalid_api_key", "model_not_found")),
    ],
)
async def test_a_refused_key_or_model_is_refused_for_good_and_the_key_is_said_nowhere(
    faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with refusing(faults) as double:
        side = OpenAISide(double.url, KEY, "gpt-realtime")
        with pytest.raises(RealtimeRefused) as caught:
            await side.open()
        said = f"{caught.value}{caught.value.__cause__!r}{side!r}{caplog.text}"
        assert KEY not in said
        assert "gpt-realtime" in str(caught.value)


@pytest.mark.parametrize(
    "faults", [Faults(refused_status=429), Faults(refused_status=503), Faults(closed_at=1)]
)
async def test_what_may_work_later_is_unreachable(faults: Faults) -> None:
    async with refusing(faults) as double:
        with pytest.raises(RealtimeUnreachable):
            await OpenAISide(double.url, KEY, "m").open()
        again = OpenAISide(double.url, KEY, "m")
        await again.open()
        await again.close()
    with pytest.raises(RealtimeUnreachable):
        await again.open()
    with pytest.raises(RealtimeUnreachable):
        await again.send("{}")


async def test_a_server_that_never_begins_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"ws://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RealtimeUnreachable, match="no answer"):
            await OpenAISide(url, KEY, "m", open_s=0.2).open()


async def test_of_what_is_no_json_nothing_is_yielded() -> None:
    async with refusing(Faults(malformed_at=1)) as double:
        side = OpenAISide(double.url, KEY, "m")
        await side.open()
        await side.send('{"type": "response.cancel"}')
        assert (await anext(side.events()))["type"] == "error"
        await side.close()


async def test_the_key_the_model_and_no_header_of_the_beta_are_sent() -> None:
    async with refusing(key=KEY) as double:
        with pytest.raises(RealtimeRefused):
            await OpenAISide(double.url, "another", "m").open()
        side = OpenAISide(f"{double.url}?region=eu", KEY, "gpt-realtime 2.1")
        await side.open()
        created = await anext(side.events())
        assert created["session"]["model"] == "gpt-realtime 2.1"
        await side.close()
        await side.close()


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("ws://api.openai.com/v1/realtime", KEY),
        ("https://api.openai.com/v1/realtime", KEY),
        ("ws:///v1", KEY),
        ("ws://8.8.8.8/v1", KEY),
        ("wss://127.0.0.1/v1", "with\nline"),
        ("wss://127.0.0.1/v1", " "),
    ],
)
async def test_an_address_without_tls_or_a_key_that_is_none_is_refused_unsent(
    url: str, key: str
) -> None:
    with pytest.raises(RealtimeRefused, match="NODIUS_REALTIME") as caught:
        await OpenAISide(url, key, "m").open()
    assert key not in str(caught.value) or not key.strip()


async def test_a_lost_connection_ends_the_events_and_another_goes_on() -> None:
    async with conversing(faults=Faults(closed_at=3)) as (client, double):
        await client.update()
        await client.send("input_audio_buffer.clear")
        assert [event async for event in client.events] == []
        with pytest.raises(RealtimeUnreachable):
            await client.send("input_audio_buffer.clear")
        again = Client(OpenAISide(double.url, KEY, "m"))
        await again.side.open()
        await again.update()
        await again.side.close()


async def test_closing_ends_the_events_for_who_reads_them_also_in_the_middle() -> None:
    async with conversing("word " * 100) as (client, _):
        await client.update()
        await client.send("response.create")
        some = asyncio.Event()

        async def reading() -> None:
            async for _ in client.events:
                some.set()
                await asyncio.sleep(0)

        reader = asyncio.create_task(reading())
        await some.wait()
        await client.side.close()
        await reader
        with pytest.raises(RealtimeUnreachable):
            await client.side.send("{}")


async def test_a_redirect_is_not_followed_because_the_key_would_go_with_it() -> None:
    asked: list[str] = []

    async def follow(socket: ServerConnection) -> None:
        asked.append(socket.request.headers["Authorization"] if socket.request else "")

    def refer(socket: ServerConnection, _request: object) -> object:
        response = socket.respond(302, "")
        response.headers["Location"] = f"ws://127.0.0.1:{target.sockets[0].getsockname()[1]}/"  # type: ignore[index]
        return response

    async with (
        serve(follow, "127.0.0.1", 0) as target,
        serve(follow, "127.0.0.1", 0, process_request=refer) as first,  # type: ignore[arg-type]
    ):
        port = next(iter(first.sockets)).getsockname()[1]
        with pytest.raises(RealtimeUnreachable, match="302"):
            await OpenAISide(f"ws://127.0.0.1:{port}/", KEY, "m").open()
    assert asked == []


async def test_frames_are_bounded_and_a_slow_reader_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openai_side, "CLOSE_S", 0.1)
    sent = 0

    async def flood(socket: ServerConnection) -> None:
        nonlocal sent
        await socket.send('{"type": "session.created"}')
        while True:
            await socket.send('{"type": "x", "pad": "%s"}' % ("p" * 100_000))
            sent += 1

    async with serve(flood, "127.0.0.1", 0, max_size=None) as server:
        url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/"
        side = OpenAISide(url, KEY, "m")
        await side.open()
        before = -1
        while before != sent:  # until the server can send no more
            before = sent
            await asyncio.sleep(0.05)
        assert sent < 400, "at most 16 frames wait here, and what the sockets hold"
        events = side.events()
        for _ in range(50):
            await anext(events)
        await side.close()


async def test_a_frame_of_15_mib_is_read_and_a_larger_one_ends_the_connection() -> None:
    async def big(socket: ServerConnection) -> None:
        for mib in (15, 17):
            await socket.send('{"type": "x", "pad": "%s"}' % ("p" * mib * 1024 * 1024))
        await socket.wait_closed()

    async with serve(big, "127.0.0.1", 0, max_size=None) as server:
        side = OpenAISide(
            f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/", KEY, "m"
        )
        await side.open()
        assert [len(event["pad"]) async for event in side.events()] == [15 * 1024 * 1024]
        await side.close()


async def test_a_server_that_takes_nothing_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_side, "SEND_S", 0.2)
    over = asyncio.Event()

    async def deaf(socket: ServerConnection) -> None:
        await socket.send('{"type": "session.created"}')
        socket.transport.pause_reading()
        await over.wait()
        socket.transport.resume_reading()

    async with serve(deaf, "127.0.0.1", 0) as server:
        side = OpenAISide(
            f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/", KEY, "m"
        )
        await side.open()
        with pytest.raises(RealtimeUnreachable, match="took nothing"):
            await asyncio.gather(*(side.send("x" * 1_000_000) for _ in range(50)))
        over.set()
        await side.close()


@pytest.mark.parametrize(
    ("name", "wanted", "speaks"),
    [
        ("spoken_turn", [("assistant", "Good morning, the harbour office.")], True),
        *at_hand(
            (
                "audio_in_server_vad_turn",
                [
                    ("user", "Hello, my name is Marcelo."),
                    ("assistant", "Hello, Marcelo! Great to meet you. How can I help you today?"),
                ],
                True,
            ),
            ("text_in_audio_out_turn", [("assistant", "Hi there!")], True),
            ("history_seeding", [], False),
        ),
    ],
)
def test_the_words_of_a_recorded_session_are_in_the_transcript_and_its_sound_on_the_line(
    name: str, wanted: list[tuple[str, str]], speaks: bool
) -> None:
    call = Call(opened=False)
    deltas = 0
    for step in recorded(name):
        if step["direction"] == "received":
            SERVER[step["data"]["type"]].model_validate(step["data"])
            deltas += step["data"]["type"] == "response.output_audio.delta"
            call.feed(ModelEvent(step["data"]))
    assert [(entry.role, entry.text) for entry in call.bridge.transcript.ordered()] == wanted
    media = [frame for frame in call.phone_frames() if frame["event"] == "media"]
    assert bool(media) == bool(deltas) == speaks
    for event in call.sent():
        CLIENT[event["type"]].model_validate(event)
    assert call.kinds()[0] == "session.update"
    assert call.kinds().count("response.create") == (not speaks)
    if not speaks:  # nobody has heard words that are text alone: they are asked to be said
        assert "Your name is Alice, and your favorite color is teal." in str(
            call.sent()[-1]["response"]
        )
