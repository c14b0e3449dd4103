"""What a local server says of its models and their window, as each kind of server says it."""

from __future__ import annotations

from typing import Any

import pytest

from graphrag.llm import errors
from graphrag.llm.openai_compatible import OpenAICompatibleProvider
from tests.graphrag.llm.wire import openai_provider
from tests.support.each_row import each_row
from tests.support.scripted_http import Answer, ScriptedServer

MODEL = "qwen"
NOTHING = Answer(status=404, body={"error": "no such address"})
LISTED = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}

SERVERS: dict[str, tuple[list[Answer], int | None]] = {
    "vLLM": ([Answer(body={"data": [{"id": MODEL, "max_model_len": 4096}, {"id": "other"}]})], 4096),
    "llama.cpp": (
        [
            Answer(body={"data": [{"id": MODEL, "meta": {"n_ctx_train": 32768}}]}),
            Answer(body={"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}),
        ],
        4096,
    ),
    "Ollama": (
        [Answer(body=LISTED), NOTHING, Answer(body={"models": [{"name": MODEL, "context_length": 8192}]})],
        8192,
    ),
    "LM Studio": (
        [
            *(Answer(body=LISTED), NOTHING, NOTHING),
            Answer(
                body={"data": [{"id": MODEL, "loaded_context_length": 4096, "max_context_length": 131072}]}
            ),
        ],
        4096,
    ),
    "a server that does not say": ([Answer(body=LISTED), NOTHING, NOTHING, NOTHING], None),
    "a server that says nonsense": ([Answer(body=["x"]), NOTHING, Answer(body=7), Answer(body=b"<p>")], None),
    "an absurd window": (
        [Answer(body={"data": [{"id": MODEL, "max_model_len": -1}]}), NOTHING, NOTHING, NOTHING],
        None,
    ),
}


def provider_of(url: str, **more: Any) -> OpenAICompatibleProvider:
    return openai_provider(url, model=MODEL, context_window=4_000, **more)


@each_row("name", SERVERS)
async def test_the_window_is_read_from_what_each_kind_of_server_says(name: str) -> None:
    answers, window = SERVERS[name]
    with ScriptedServer(scripts_facts=True) as server:
        server.play(*answers)
        provider = provider_of(server.url, learns_window=True)
        await provider.learn_window()
        assert provider.context_window == (window or 4_000)
        await provider.learn_window()  # asked once, not with every question
        await provider.aclose()
        assert {request.method for request in server.requests} == {"GET"}


async def test_a_window_that_is_set_is_not_asked_for() -> None:
    with ScriptedServer(scripts_facts=True) as server:
        provider = provider_of(server.url)
        await provider.learn_window()
        assert provider.context_window == 4_000
        await provider.aclose()


async def test_a_server_that_is_not_there_is_found_out_when_a_question_is_asked() -> None:
    provider = provider_of("http://127.0.0.1:1", learns_window=True)
    await provider.learn_window()
    assert provider.context_window == 4_000
    with pytest.raises(errors.ModelUnreachable):
        await provider.facts()
    await provider.aclose()
