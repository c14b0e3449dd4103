"""Everything that a simulated call needs, in this process: a service, a double of the model, a sample API."""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from cli.serve import served_here
from graphrag.agents.demo_api import demo_api_on
from graphrag.app.models import rules_provider
from graphrag.client.errors import ServiceError
from graphrag.client.rest import NodiusClient
from graphrag.config import Settings
from graphrag.voice.call_parts import RecordedAnswers
from graphrag.voice.realtime.double import RealtimeDouble
from graphrag.voice.realtime.minds import RulesMind
from graphrag.voice.simulation.call_script import CallScript, ScriptMind
from graphrag.voice.simulation.script_player import sounds_of
from graphrag.voice.simulation.simulated_call import SimulatedCall, simulate
from graphrag.voice.simulation.speech import speech
from graphrag.voice.simulation.twilio_line import TwilioLine
from mock_data import load_json

Json = Mapping[str, Any]
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallService:
    """A service on loopback. `line`: how one of its agents is called."""

    client: NodiusClient
    line: TwilioLine


@asynccontextmanager
async def call_service(
    settings: Settings,
    agent_id: str,
    script: CallScript,
    *,
    document: Json | None = None,
    recorded: RecordedAnswers | None = None,
    is_live: bool = False,
    speaks: bool = False,
) -> AsyncGenerator[CallService]:
    """Serve an agent on loopback until the block ends; the database stays as it is but for the call.

    `document`: it answers in place of the stored one. `recorded`: what answers in place of its tools.
    `is_live`: the model of the settings answers, not the double, which has a voice where it `speaks`, else
    tones.

    Raises: ServiceError, and what opening the database raises.
    """
    async with AsyncExitStack() as stack:
        listening, key = stack.enter_context(socket.create_server((HOST, 0))), secrets.token_urlsafe(16)
        address = f"http://{_place(listening)}"
        changes: dict[str, Any] = {
            **dict.fromkeys(("auth_secret", "auth_public_key", "auth_jwks")),
            "public_url": address,
            "twilio_auth_token": SecretStr(key),
        }
        api_address = None
        if script.api is not None:
            place = await stack.enter_async_context(_demo_api())
            api_address = f"http://{place}"
            changes["agent_http_allow"] = (*settings.agent_http_allow, place)
        if not is_live:
            changes |= await stack.enter_async_context(_double(script, speaks=speaks))
        await stack.enter_async_context(served_here(settings.model_copy(update=changes), listening, recorded))
        client = await stack.enter_async_context(NodiusClient(address, workspace=settings.workspace))
        if document is None and script.sample == agent_id:
            document = await _sample_unless_stored(client, agent_id)
        stored = document or (await client.get("agents", agent_id))["document"]
        if api_address is not None:
            document = {**stored, "base_url": api_address}
        if document is not None:
            agent_id = await stack.enter_async_context(_temporary(client, agent_id, document))
        url = f"{address}/voice/{settings.workspace}/{agent_id}"
        line = TwilioLine(url=url, key=key, caller=script.caller or "anonymous")
        yield CallService(client=client, line=line)


async def called(
    service: AbstractAsyncContextManager[CallService], script: CallScript, beside: Path | None = None
) -> SimulatedCall:
    """Play a script against a service. `beside`: the folder of its sounds."""
    sounds = await sounds_of(script, speech(), beside)
    async with service as opened:
        return await simulate(script, sounds, opened.client, opened.line)


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


async def _sample_unless_stored(client: NodiusClient, agent_id: str) -> dict[str, Any] | None:
    """Return the sample document that a delivered script is about, where there is no such agent yet."""
    try:
        await client.get("agents", agent_id)
    except ServiceError as exc:
        if exc.code != "agent_not_found":
            raise
        return load_json(f"agents/{agent_id.replace('-', '_')}.json")
    return None


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
