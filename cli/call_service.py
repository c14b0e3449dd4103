"""Everything that a simulated call needs, in this process: a service, a double of the model,
a sample API.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from cli.serve import served_here
from graphrag.app.models import rules_provider
from graphrag.client.errors import ServiceError
from graphrag.client.rest import NodiusClient
from graphrag.config import Settings
from graphrag.samples.demo_api import demo_api_on
from graphrag.simulator.call_script import CallScript, ScriptMind
from graphrag.simulator.minds import RulesMind
from graphrag.simulator.realtime_double import RealtimeDouble
from graphrag.simulator.script_player import sounds_of
from graphrag.simulator.simulated_call import SimulatedCall, simulate
from graphrag.simulator.speech import speech
from graphrag.simulator.twilio_line import TwilioLine
from graphrag.voice.dependencies import RecordedAnswers
from mock_data import load_json

Json = Mapping[str, Any]
HOST = "127.0.0.1"


async def call_here(
    settings: Settings,
    agent_id: str,
    script: CallScript,
    beside: Path | None = None,
    *,
    document: Json | None = None,
    recorded: RecordedAnswers | None = None,
    is_live: bool = False,
    speaks: bool = False,
) -> SimulatedCall:
    """Play a script to an agent that is served on loopback; the database stays as it is but
    for the call.

    `beside`: the folder of the script's sounds. `document`: it answers in place of the stored one.
    `recorded`: what answers in place of its tools. `is_live`: the model of the settings answers,
    not the double, which has a voice where it `speaks`, else tones.

    Raises: ServiceError, LineRefused, OSError, UnreadableWav, and what opening the database raises.
    """
    sounds = await sounds_of(script, speech(), beside)
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(socket.create_server((HOST, 0)))
        key = secrets.token_urlsafe(16)
        address = f"http://{_place(listening)}"
        changes: dict[str, Any] = {
            **dict.fromkeys(("auth_secret", "auth_public_key", "auth_jwks")),
            "public_url": address,
            "twilio_auth_token": SecretStr(key),
        }
        api = None
        if script.api is not None:
            api = await stack.enter_async_context(_demo_api())
            changes["agent_http_allow"] = (*settings.agent_http_allow, api)
        if not is_live:
            changes |= await stack.enter_async_context(_double(script, speaks=speaks))
        await stack.enter_async_context(
            served_here(settings.with_values(changes), listening, recorded)
        )
        client = await stack.enter_async_context(
            NodiusClient(address, workspace=settings.workspace)
        )
        stored = document or await _stored(client, agent_id, script)
        if stored is not None and api is not None:
            stored = {**stored, "base_url": f"http://{api}"}
        if stored is not None:
            agent_id = await stack.enter_async_context(_temporary(client, agent_id, stored))
        url = f"{address}/voice/{settings.workspace}/{agent_id}"
        line = TwilioLine(url=url, key=key, caller=script.caller or "anonymous")
        return await simulate(script, sounds, client, await line.dial())


@asynccontextmanager
async def _demo_api() -> AsyncGenerator[str]:
    """Run the API that sample agents call; yield its host and port."""
    with socket.create_server((HOST, 0)) as asked:
        async with demo_api_on(asked):
            yield _place(asked)


@asynccontextmanager
async def _double(script: CallScript, *, speaks: bool) -> AsyncGenerator[dict[str, Any]]:
    """Run a double of the model; yield the settings with which it answers."""
    mind = ScriptMind(script, RulesMind(rules_provider()))
    async with RealtimeDouble(mind, voice=speech().say if speaks else None) as double:
        double.hear(script.lines)
        key = SecretStr("double")
        yield {"realtime": "openai", "realtime_url": double.url, "realtime_api_key": key}


async def _stored(client: NodiusClient, agent_id: str, script: CallScript) -> dict[str, Any] | None:
    """Return the document of an agent: of a delivered script's, where it is not
    stored, the sample.
    """
    try:
        found = await client.get("agents", agent_id)
    except ServiceError as exc:
        if exc.code != "agent_not_found" or script.sample != agent_id:
            raise
        return load_json(f"agents/{agent_id.replace('-', '_')}.json")
    return found["document"] if script.api is not None else None


@asynccontextmanager
async def _temporary(client: NodiusClient, agent_id: str, document: Json) -> AsyncGenerator[str]:
    """Yield an agent that answers by a document, and is gone afterwards."""
    temporary = f"{agent_id[:40]}-{secrets.token_hex(4)}"
    trial = {**document, "agent": {**document.get("agent", {}), "id": temporary}}
    await client.put("agents", temporary, body={"document": trial})
    try:
        await client.post("agents", temporary, "start")
        yield temporary
    finally:
        with suppress(ServiceError):
            await client.post("agents", temporary, "stop", body={"now": True})
            await client.delete("agents", temporary)


def _place(listening: socket.socket) -> str:
    return f"{HOST}:{listening.getsockname()[1]}"
