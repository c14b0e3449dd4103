"""A Realtime server's double and telephones, in a loop of their own beside the
service under test.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from graphrag.simulator.minds import CallsTool, Item, Reply, Says, words_of
from graphrag.simulator.phone_simulator import PhoneSimulator
from graphrag.simulator.realtime_double import RealtimeDouble
from graphrag.simulator.speech import speech
from graphrag.simulator.twilio_line import StreamPlace
from tests.e2e.site import PATIENCE_S, Site
from tests.e2e.talk import RENAME

R = TypeVar("R")
QUESTION, CHANGE_IT = "What happens when fetching fails?", "Please rename it."
ANSWER = "When fetching fails the error is logged, and the rest of the pipeline goes on without the players."


def voice_agent(graph: str) -> dict[str, Any]:
    """Return a document of an agent that answers calls about a graph, and may propose."""
    return {
        "version": "2.0",
        "agent": {"id": "desk", "name": "Desk", "language": "en"},
        "channels": ["chat", "voice"],
        "graphs": [graph],
        "permissions": {"propose": True, "role": "editor"},
        "session": {
            "mode": "inline",
            "instructions": "Answer from the graph, briefly.",
            "tools": [],
        },
    }


class PipelineMind:
    """Answers questions about the sample graph, each by what was said or found last."""

    async def reply(self, instructions: str, items: Sequence[Item], tools: Sequence[Item]) -> Reply:
        last = items[-1]
        return [
            self._output(last["output"])
            if last["type"] == "function_call_output"
            else self._answer(last)
        ]

    def _output(self, output: str) -> Says:
        return Says("It waits for somebody to decide." if "code" in output.lower() else ANSWER)

    def _answer(self, item: Item) -> Says | CallsTool:
        words = words_of(item)
        if item["role"] == "system":
            return Says(f"I was told: {words}")
        if words == QUESTION:
            return CallsTool("search_nodes", '{"query": "fetch players error"}')
        return (
            CallsTool("propose_update_node", json.dumps(RENAME))
            if words == CHANGE_IT
            else Says("You are welcome.")
        )


@dataclass(slots=True)
class VoiceLoop:
    """The double, and the loop that it and telephones live in."""

    loop: asyncio.AbstractEventLoop
    double: RealtimeDouble
    phones: list[PhoneSimulator] = field(default_factory=list[PhoneSimulator])

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        return self.start(work).result(PATIENCE_S)

    def start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def settings(self) -> dict[str, Any]:
        """Return the settings of a service that this double speaks for."""
        return {
            "realtime": "openai",
            "realtime_url": self.double.url,
            "realtime_api_key": "double-key",
        }

    def call(self, site: Site, agent: str, token: str | None) -> tuple[str, PhoneSimulator]:
        """Begin a call as a telephone does; return its id and the telephone, whose line is open."""
        talk = site.rest(
            "POST", f"/api/agents/{agent}/talk", token=token, json={"channel": "simulated"}
        )
        url = f"{site.url.replace('http', 'ws', 1).rstrip('/')}{talk['url']}"
        place = StreamPlace(
            url=url, token=talk["token"], call_sid=talk["callSid"], origin=site.url.rstrip("/")
        )

        async def opened() -> PhoneSimulator:
            return await PhoneSimulator(place).__aenter__()

        self.phones.append(phone := self.run(opened()))
        return talk["callId"], phone

    def say(self, phone: PhoneSimulator, text: str) -> None:
        """Say something; the double recognizes it."""
        self.double.hear([text])

        async def said() -> None:
            await phone.say(await speech().say(text, "en"))

        self.run(said())


@contextmanager
def running_voice() -> Generator[VoiceLoop]:
    """Run the double until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    voice = VoiceLoop(loop, RealtimeDouble(PipelineMind()))
    voice.run(voice.double.__aenter__())
    try:
        yield voice
    finally:
        for phone in voice.phones:
            voice.run(phone.__aexit__(None, None, None))
        voice.run(voice.double.__aexit__())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()
