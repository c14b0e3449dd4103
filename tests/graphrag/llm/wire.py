"""Bodies of both wire formats, and providers that talk to the scripted server;
used by these tests.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from graphrag.llm.base import Chunk, LLMProvider, Message, ModelOptions, TextDelta, UserMessage
from graphrag.llm.errors import ModelError
from graphrag.llm.openai_compatible import OpenAICompatibleProvider
from graphrag.llm.registry import ProviderChoice, ProviderEntry, RetryPolicy, Sleep
from tests.support.scripted_http import Answer, ScriptedServer

if TYPE_CHECKING:
    from graphrag.llm.anthropic import AnthropicProvider

KEY = "sk-test-0123456789abcdef"
ASK: tuple[Message, ...] = (UserMessage(content="hello"),)
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {}},
    },
}
EVENT_STREAM = {"content-type": "text/event-stream"}


class Pauses:
    """Stands in for sleeping; remembers how long was asked for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def chosen(name: str, url: str, *, sleep: Sleep | None = None, **more: Any) -> ProviderChoice:
    """Return what a provider is asked with; `more` are fields of the choice and of its entry."""
    dialect = {field.name for field in fields(ProviderEntry)} - {
        field.name for field in fields(ProviderChoice)
    }
    entry = ProviderEntry(
        name=name, kind="openai", **{k: more.pop(k) for k in dialect & more.keys()}
    )
    given = {
        "model": "some-model",
        "key": SecretStr(KEY),
        "retry": RetryPolicy(sleep=sleep or Pauses()),
        **more,
    }
    return ProviderChoice(entry=entry, base_url=url, **given)


def openai_provider(
    server: ScriptedServer | str, sleep: Sleep | None = None, **more: Any
) -> OpenAICompatibleProvider:
    url = server if isinstance(server, str) else server.url
    return OpenAICompatibleProvider(chosen("openai", f"{url}/v1", sleep=sleep, **more))


def anthropic_provider(
    server: ScriptedServer | str, sleep: Sleep | None = None, **more: Any
) -> AnthropicProvider:
    from graphrag.llm.anthropic import AnthropicProvider  # a second to load: only where it is asked

    url = server if isinstance(server, str) else server.url
    return AnthropicProvider(chosen("anthropic", url, sleep=sleep, **more))


def sse(*events: object, done: bool = True) -> bytes:
    """Events of OpenAI's format: one JSON value each."""
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {line}\n\n" for line in [*lines, *(["[DONE]"] if done else [])]).encode()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": fields, "finish_reason": finish}],
    }


def call_delta(
    index: int | None,
    call_id: str | None = None,
    name: str | None = None,
    arguments: str | None = None,
) -> dict[str, Any]:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    fragment: dict[str, Any] = {"type": "function", "function": function}
    fragment |= {"id": call_id} if call_id is not None else {}
    fragment |= {"index": index} if index is not None else {}
    return delta(tool_calls=[fragment])


def usage_chunk(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return delta() | {"choices": [], "usage": usage | more}


def events(*items: dict[str, Any]) -> bytes:
    """Events of Anthropic's format, each named by its type."""
    return "".join(
        f"event: {item['type']}\ndata: {json.dumps(item)}\n\n" for item in items
    ).encode()


def message_start(**usage: int) -> dict[str, Any]:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    return {
        "type": "message_start",
        "message": message | {"usage": {"input_tokens": 10, "output_tokens": 1} | usage},
    }


def block(
    index: int, start: dict[str, Any], *deltas: dict[str, Any], stop: bool = True
) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": index, "content_block": start}
    ]
    made += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
    return made + ([{"type": "content_block_stop", "index": index}] if stop else [])


def text_block(index: int, *texts: str) -> list[dict[str, Any]]:
    return block(
        index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": t} for t in texts)
    )


def tool_block(
    index: int, call_id: str, name: str, *pieces: str, stop: bool = True
) -> list[dict[str, Any]]:
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return block(
        index, start, *({"type": "input_json_delta", "partial_json": p} for p in pieces), stop=stop
    )


def message_end(reason: str | None, **usage: int) -> list[dict[str, Any]]:
    change = {"stop_reason": reason, "stop_sequence": None}
    ends = {"type": "message_delta", "delta": change, "usage": {"output_tokens": 7} | usage}
    return [ends, {"type": "message_stop"}]


def openai_text(text: str) -> bytes:
    return sse(
        delta(role="assistant", content=""), delta(content=text), delta("stop"), usage_chunk(5, 2)
    )


def anthropic_text(text: str) -> bytes:
    return events(message_start(), *text_block(0, text), *message_end("end_turn"))


def streamed(body: bytes, *, cuts: Sequence[int] = (), **more: Any) -> Answer:
    """Answer with a stream, cut at the given bytes."""
    return Answer(pieces=cut(body, cuts), headers=EVENT_STREAM, **more)


def refused(status: int, message: str = "no", **headers: str) -> Callable[[str], Answer]:
    """An error body as each format writes it; it repeats the key, as some servers do."""

    def answer(api: str) -> Answer:
        error: dict[str, Any] = {"message": f"{message} {KEY}", "type": "some_error"}
        body = {"error": error} if api == "openai" else {"type": "error", "error": error}
        return Answer(
            status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    return answer


def body(openai: bytes, anthropic: bytes, **more: Any) -> Callable[[str], Answer]:
    return lambda api: streamed(openai if api == "openai" else anthropic, **more)


BEGUN = sse(delta(content="Hel"), done=False), events(message_start(), *text_block(0, "Hel"))
"""A stream that has begun and not ended."""


def cut(body: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted({place for place in places if 0 < place < len(body)}), len(body)]
    return [body[a:b] for a, b in itertools.pairwise(edges)]


def random_cuts(body: bytes, seed: int, count: int = 12) -> list[int]:
    """Places to cut a body; a few of them side by side, so that single bytes come alone."""
    chance = random.Random(seed)
    places = [chance.randrange(1, max(2, len(body))) for _ in range(count)]
    return [*places, *(place + 1 for place in places[:3])]


async def chunks_of(
    provider: LLMProvider,
    messages: Sequence[Message] = ASK,
    tools: Sequence[dict[str, Any]] = (),
    options: ModelOptions | None = None,
    first: threading.Event | None = None,
) -> tuple[list[Chunk], ModelError | None]:
    """Return what a stream yields, and the error it ends with; `first` is set
    with the first chunk.
    """
    found: list[Chunk] = []
    try:
        async with aclosing(provider.stream(messages, tools, options or ModelOptions())) as chunks:
            async for chunk in chunks:
                found.append(chunk)
                if first is not None:
                    first.set()
    except ModelError as exc:
        return found, exc
    return found, None


async def answered(
    made: Callable[..., LLMProvider],
    *answers: Any,
    messages: Sequence[Message] = ASK,
    tools: Sequence[dict[str, Any]] = (),
    options: ModelOptions | None = None,
    first: threading.Event | None = None,
    **settings: Any,
) -> tuple[list[Chunk], ModelError | None]:
    """Return what a provider made with these settings makes of a server's answers
    to one question.
    """
    with ScriptedServer() as server:
        server.play(*answers)
        provider = made(server, **settings)
        found = await chunks_of(provider, messages, tools, options, first)
        await provider.aclose()
    return found


def text_of(chunks: Iterable[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
