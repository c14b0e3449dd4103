"""What stands between the two ends, in a process of its own: a bare relay, or the whole service.

Run: `python -m tests.benchmarks.voice_bridges relay|ours MODEL_URL [API_URL]`; prints its address.
Each line that comes in is answered with what the process holds.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from graphrag.workers import collect_only_young, resident
from server.run import run
from tests.benchmarks.voice_ends import OPTIONS
from tests.support.served import served

KEY = "the key of a benchmark"
KEYS = {"Authorization": f"Bearer {KEY}"}
GREETING = {"unknown_customer": "Greet the caller."}


def relay(model: str) -> Any:
    """Return who serves a stream as a bare relay: frames are written again, and
    nothing is decided.
    """

    async def serve_one(phone: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            async with connect(model, additional_headers=KEYS, proxy=None, **OPTIONS) as side:
                await side.send('{"type":"response.create"}')

                async def down() -> None:
                    async for text in side:
                        event = orjson.loads(text)
                        if event["type"] == "response.output_audio.delta":
                            media = {
                                "event": "media",
                                "streamSid": "MZ",
                                "media": {"payload": event["delta"]},
                            }
                            await phone.send(orjson.dumps(media), text=True)
                        elif event["type"] == "input_audio_buffer.speech_started":
                            await phone.send('{"event":"clear","streamSid":"MZ"}')

                task = asyncio.create_task(down())
                async for text in phone:
                    message = orjson.loads(text)
                    if message["event"] == "media":
                        frame = {
                            "type": "input_audio_buffer.append",
                            "audio": message["media"]["payload"],
                        }
                        await side.send(orjson.dumps(frame), text=True)
                task.cancel()

    return serve_one


def document(api: str, graph: str) -> dict[str, Any]:
    """Return the agent that calls are measured with. Its session takes an API of 200 ms."""
    inline: dict[str, Any] = {"mode": "inline", "instructions": "Answer."}
    mapping = {"instructions": "$.prompt"}
    fetched = {"mode": "config_url", "url": f"{api}/session", "response_mapping": mapping}
    return {
        "version": "2.0",
        "agent": {"id": "fetched" if api else "inline", "name": "Bench"},
        "session": fetched if api else inline,
        "graphs": [graph],
        "greeting": GREETING,
        "voice": {"silence_prompts": 0},
        "limits": {"max_calls": 1000, "max_tool_calls": 500},
    }


async def service(model: str, api: str) -> None:
    """Serve as `nodius serve` does, over the NBA graph in memory."""
    given: dict[str, Any] = {
        "auth_secret": None,
        "realtime": "openai",
        "realtime_url": model,
        "realtime_api_key": KEY,
        "voice_max_calls": 1000,
        "agent_http_allow": ["127.0.0.1"],
    }
    async with served(None, db="memory:", **given) as site:
        services = await site.state.services("default")
        person, [graph] = services.local_person(), await services.source.list_graphs()
        for source in ("", api):
            await services.agents.apply(document(source, graph.key), person)
            await services.agents.start("fetched" if source else "inline")
        records = services.database.records("default")
        gc.collect()
        collect_only_young()  # as `nodius serve` does

        async def statuses() -> Counter[str]:
            return Counter(
                str(each.data["status"]) for each in await records.query("call", limit=100_000)
            )

        await answer(site.address, statuses)


async def answer(address: str, calls: Callable[[], Awaitable[Counter[str]]] | None = None) -> None:
    """Say the address, then for each line what the process holds, and how its calls stand."""
    print(address, flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        gc.collect()
        held: dict[str, Any] = {"bytes": resident(), "tasks": len(asyncio.all_tasks())}
        held |= {"sockets": _sockets(), "calls": await calls() if calls is not None else {}}
        print(json.dumps(held), flush=True)


def _sockets() -> int:
    found = 0
    for name in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += str(name.readlink()).startswith("socket:")
    return found


async def main() -> None:
    kind, model, *more = sys.argv[1:]
    if kind == "ours":
        await service(model, more[0])
        return
    async with serve(relay(model), "127.0.0.1", 0, **OPTIONS) as server:
        await answer(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}")


if __name__ == "__main__":
    run(main())
