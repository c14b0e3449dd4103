"""Plays call scripts to agents: of a running service, or of a service in this process with a double
of the model and a sample API.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from graphrag.app.models import rules_provider
from graphrag.client.errors import ServiceError
from graphrag.client.rest import NodiusClient
from graphrag.config import Settings
from graphrag.llm.base import LLMProvider
from graphrag.samples.demo_api import demo_api_on
from graphrag.simulator.call_script import CallScript, ScriptMind
from graphrag.simulator.minds import RulesMind
from graphrag.simulator.realtime_double import RealtimeDouble
from graphrag.simulator.script_player import sounds_of
from graphrag.simulator.script_provider import ScriptProvider
from graphrag.simulator.simulated_call import SimulatedCall, simulate, talk
from graphrag.simulator.speech import Speech, speech
from graphrag.simulator.twilio_line import TwilioLine
from graphrag.voice.dependencies import RecordedAnswers
from mock_data import load_json

Json = Mapping[str, Any]
# Serves with the recorded answers of tools, if any, and with a model of chats in place of that of
# the settings; False keeps records in memory.
Serve = Callable[
    [Settings, socket.socket, RecordedAnswers | None, bool, LLMProvider | None],
    AbstractAsyncContextManager[None],
]
HOST = "127.0.0.1"
ANONYMOUS = "anonymous"  # the number of a caller who hides it


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A call to make: the agent, what its caller says and by which voice, and the folder with the
    script's sounds.
    """

    agent_id: str
    script: CallScript
    folder: Path | None = None
    voice: Speech = field(default_factory=speech)

    async def sounds(self) -> dict[str, bytes]:
        return await sounds_of(self.script, self.voice, self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAnswers:
    """What answers a call in this process.

    `document`: answers in place of the stored document of the agent. `recorded`: answers in place
    of its tools. `is_live`: the models of the settings answer, not the double and the script.
    `voice`: that of the double. `provider`: a text model that decides what is said, in place of the
    script's replies. `is_stored`: whether the record of the call is kept.
    """

    document: Json | None = None
    recorded: RecordedAnswers | None = None
    is_live: bool = False
    voice: Speech = field(default_factory=speech)
    provider: LLMProvider | None = None
    is_stored: bool = True


async def call_service(
    call: ScriptedCall, address: str, *, token: str | None, workspace: str
) -> SimulatedCall:
    """Makes a call to an agent of a running service.

    Raises: ServiceError, LineRefused, OSError, UnreadableWav.
    """
    sounds = await call.sounds()
    script = call.script
    async with NodiusClient(address, token=token, workspace=workspace) as client:
        await client.get("agents", call.agent_id)
        answer = await talk(client, address, call.agent_id, script.caller)
        return await simulate(script, sounds, client, answer)


async def call_here(
    settings: Settings, call: ScriptedCall, answers: LocalAnswers, serve: Serve
) -> SimulatedCall:
    """Makes a call to an agent that `serve` serves on loopback. Only the call is stored, if
    `answers` say so.

    Raises: ServiceError, LineRefused, OSError, UnreadableWav, and the errors of opening the
    database.
    """
    sounds = await call.sounds()
    script = call.script
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
        if not answers.is_live:
            changes |= await stack.enter_async_context(_double(script, answers))
        here = settings.with_values(changes)
        chats = None if answers.is_live else answers.provider or _scripted(script)
        served = serve(here, listening, answers.recorded, answers.is_stored, chats)
        await stack.enter_async_context(served)
        client = await stack.enter_async_context(
            NodiusClient(address, workspace=settings.workspace)
        )
        agent_id = call.agent_id
        document = answers.document or await _stored(client, agent_id, script)
        if document is not None:
            based = {} if api is None else {"base_url": f"http://{api}"}
            temporary = _temporary(client, agent_id, {**document, **based})
            agent_id = await stack.enter_async_context(temporary)
        url = f"{address}/voice/{settings.workspace}/{agent_id}"
        line = TwilioLine(url=url, key=key, caller=script.caller or ANONYMOUS)
        return await simulate(script, sounds, client, await line.dial(), line)


def _scripted(script: CallScript) -> LLMProvider:
    """Returns the text model for agents whose calls the model of chats answers."""
    return ScriptProvider(script, rules_provider())


@asynccontextmanager
async def _demo_api() -> AsyncGenerator[str]:
    """Runs the API that sample agents call; yields its host and port."""
    with socket.create_server((HOST, 0)) as listening:
        async with demo_api_on(listening):
            yield _place(listening)


@asynccontextmanager
async def _double(script: CallScript, answers: LocalAnswers) -> AsyncGenerator[dict[str, Any]]:
    """Runs a double of the model; yields the settings that select it."""
    model = answers.provider
    mind = ScriptMind(script, RulesMind(rules_provider())) if model is None else RulesMind(model)
    async with RealtimeDouble(mind, voice=answers.voice.say) as double:
        double.hear(script.lines)
        key = SecretStr("double")
        yield {"realtime": "openai", "realtime_url": double.url, "realtime_api_key": key}


async def _stored(client: NodiusClient, agent_id: str, script: CallScript) -> dict[str, Any] | None:
    """Returns the document that has to answer, None where the stored agent can answer itself.

    A delivered script may name a sample, which answers if it is not stored.
    """
    try:
        stored = await client.get("agents", agent_id)
    except ServiceError as exc:
        if exc.code != "agent_not_found" or script.sample != agent_id:
            raise
        return load_json(f"agents/{agent_id.replace('-', '_')}.json")
    return stored["document"] if script.api is not None else None


@asynccontextmanager
async def _temporary(client: NodiusClient, agent_id: str, document: Json) -> AsyncGenerator[str]:
    """Yields the id of a running agent with this document, which is deleted at the end."""
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
