"""Asks every model service with a key five things: a stream, a tool call, a stop, an
error, an embedding.

Whatever has no key is skipped and said to be. Each check is one short request.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphrag.config import Settings, SettingsError
from graphrag.embedding import LocalEmbedder, make_embedder
from graphrag.embedding.embedder import EmbeddingError
from graphrag.llm.base import LLMProvider, ModelOptions, TextDelta, UserMessage
from graphrag.llm.errors import ModelError
from graphrag.llm.model_text import complete
from graphrag.llm.registry import COMPATIBLE, ENTRIES, choose, detect, make_provider
from graphrag.rules import RulesProvider

PATIENCE_S = 120.0
CLOSING_S = 10.0
LOOK = {
    "type": "function",
    "function": {
        "name": "look_up_node",
        "description": "Looks up a node of a graph by its key.",
        "parameters": {
            "type": "object",
            "properties": {"nodeKey": {"type": "string"}},
            "required": ["nodeKey"],
        },
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a check of a service. `check` is empty where none was made of it."""

    service: str
    check: str
    status: Literal["ok", "failed", "skipped"]
    detail: str


class CheckFailed(Exception):
    """A service answered, but not as it should."""


async def run_checks(settings: Settings) -> AsyncGenerator[Outcome]:
    """Yield what comes of each check, as it is made; nothing is raised for what a service does."""
    names = [name for name, entry in ENTRIES.items() if entry.key_variable]
    others = {
        COMPATIBLE,
        *({settings.provider} & {name for name, entry in ENTRIES.items() if entry.local}),
    }
    for name in [*names, *sorted(others)]:
        own = settings_of(name, settings)
        try:
            choose(own)
        except SettingsError as exc:
            variable = ENTRIES[name].key_variable
            detail = f"no key: set {variable}" if variable else str(exc)
            yield Outcome(service=name, check="", status="skipped", detail=detail)
            continue
        for check, run in _CHECKS.items():
            yield await _outcome(name, check, run(own))
    embedder = make_embedder(settings)
    if embedder is None or isinstance(embedder, LocalEmbedder):
        detail = "embeddings need no service here (set OPENAI_API_KEY or NODIUS_EMBEDDINGS=openai)"
        yield Outcome(service="embeddings", check="embedding", status="skipped", detail=detail)
    else:
        await embedder.aclose()
        yield await _outcome("embeddings", "embedding", _embedding(settings))


def settings_of(name: str, settings: Settings) -> Settings:
    """Return the settings with a provider named: address, key and model go to no other than
    they are for.
    """
    update: dict[str, str | None] = {"provider": name}
    if name != (COMPATIBLE if settings.provider == "auto" else settings.provider):
        update |= {"llm_base_url": None, "llm_api_key": None}
    if name != detect(settings):
        update |= {"model": None}
    return settings.with_values(update)


async def _outcome(service: str, check: str, work: Awaitable[str]) -> Outcome:
    started = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE_S):
            detail = await work
    except TimeoutError:
        return Outcome(
            service=service, check=check, status="failed", detail=f"no answer in {PATIENCE_S:g} s"
        )
    except (ModelError, EmbeddingError, CheckFailed) as exc:
        return Outcome(service=service, check=check, status="failed", detail=str(exc))
    ms = (time.perf_counter() - started) * 1e3
    return Outcome(service=service, check=check, status="ok", detail=f"{detail}, {ms:,.0f} ms")


@asynccontextmanager
async def _provider(settings: Settings) -> AsyncGenerator[LLMProvider]:
    provider = make_provider(choose(settings), offline=RulesProvider)
    try:
        yield provider
    finally:
        await provider.aclose()


async def _stream(settings: Settings) -> str:
    asked = [UserMessage(content="Write the numbers from one to ten in words.")]
    async with _provider(settings) as provider, aclosing(provider.stream(asked)) as chunks:
        pieces = [chunk.text async for chunk in chunks if isinstance(chunk, TextDelta)]
        if not "".join(pieces).strip():
            raise CheckFailed("the answer holds no text")
        return f"{provider.model} answers in {len(pieces)} pieces"


async def _tool_call(settings: Settings) -> str:
    asked = [UserMessage(content="Look up the node with the key fetch-api.")]
    async with _provider(settings) as provider:
        answer = await complete(provider, asked, [LOOK])
    if not answer.tool_calls:
        raise CheckFailed(f"no tool was called, but said: {answer.text[:100]!r}")
    call = answer.tool_calls[0]
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        raise CheckFailed(f"arguments are not JSON: {call.arguments[:100]!r}") from None
    if (call.name, arguments) != ("look_up_node", {"nodeKey": "fetch-api"}):
        raise CheckFailed(f"called {call.name} with {call.arguments[:100]}")
    return f"{call.name} {call.arguments}"


async def _stop(settings: Settings) -> str:
    asked = [UserMessage(content="Write the numbers from one to three hundred in words.")]
    async with _provider(settings) as provider:
        chunks = provider.stream(asked)
        try:
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    break
            else:
                raise CheckFailed("the answer ended before it could be stopped")
        finally:
            async with asyncio.timeout(CLOSING_S):
                await chunks.aclose()
    return "stopped after the first piece"


async def _error(settings: Settings) -> str:
    asked = [UserMessage(content="Hello")]
    async with _provider(
        settings.model_copy(update={"model": "no-such-model-of-nodius"})
    ) as provider:
        try:
            await complete(provider, asked, options=ModelOptions(max_tokens=20))
        except ModelError as exc:
            if exc.retryable:
                raise
            return f"an unknown model is {type(exc).__name__}"
    raise CheckFailed("an unknown model was answered")


async def _embedding(settings: Settings) -> str:
    embedder = make_embedder(settings)
    assert embedder is not None
    try:
        one, near, far = await embedder.embed(
            ["a dog barks", "a barking dog", "the invoice was refunded"]
        )
    finally:
        await embedder.aclose()
    if not np.dot(one, near) > np.dot(one, far):
        raise CheckFailed("like texts are no nearer than unlike ones")
    return f"{embedder.model}, {len(one)} dimensions"


_CHECKS: dict[str, Callable[[Settings], Awaitable[str]]] = {
    "stream": _stream,
    "tool call": _tool_call,
    "stop": _stop,
    "error": _error,
}
