"""The checks of real services, made on a scripted one, so that they work when somebody
has a key.
"""

from __future__ import annotations

import json
import os
import threading

import pytest

from graphrag.config import Settings, SettingsError, load_settings
from graphrag.llm.registry import ENTRIES, choose
from tests.graphrag.llm.wire import (
    EVENT_STREAM,
    anthropic_text,
    call_delta,
    delta,
    events,
    message_end,
    message_start,
    openai_text,
    sse,
    streamed,
    text_block,
    tool_block,
    usage_chunk,
)
from tests.real.__main__ import report
from tests.real.checks import run_checks, settings_of
from tests.support.scripted_http import Answer, Request, ScriptedServer

ARGUMENTS = '{"nodeKey": "fetch-api"}'
UNKNOWN = Answer(
    status=404, body={"error": {"message": "no such model", "type": "not_found_error"}}
)
OPENAI = (
    openai_text("one two"),
    sse(call_delta(0, "c1", "look_up_node", ARGUMENTS), delta("tool_calls"), usage_chunk(5, 2)),
    sse(delta(role="assistant", content="one"), done=False),
)
ANTHROPIC = (
    anthropic_text("one two"),
    events(
        message_start(), *tool_block(0, "c1", "look_up_node", ARGUMENTS), *message_end("tool_use")
    ),
    events(message_start(), *text_block(0, "one")),
)


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("NODIUS_") or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)


def embedded(request: Request) -> Answer:
    vectors = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]
    assert len(json.loads(request.body)["input"]) == len(vectors)
    return Answer(body={"data": [{"index": i, "embedding": v} for i, v in enumerate(vectors)]})


def settings_for(server: ScriptedServer, provider: str) -> Settings:
    return load_settings(
        provider=provider,
        llm_base_url=server.url if provider == "anthropic" else f"{server.url}/v1",
        llm_api_key="sk-test-0123456789",
        embeddings="openai",
        embeddings_base_url=f"{server.url}/v1",
    )


@pytest.mark.parametrize(("provider", "answers"), [("openai", OPENAI), ("anthropic", ANTHROPIC)])
async def test_all_five_checks_pass_on_a_service_that_works(
    provider: str, answers: tuple[bytes, bytes, bytes]
) -> None:
    gone = threading.Event()
    text, tool, begun = answers
    hanging = Answer(pieces=[begun], headers=EVENT_STREAM, fault="hang", gone=gone)
    with ScriptedServer() as server:
        server.play(streamed(text), streamed(tool), hanging, UNKNOWN, embedded)
        found = [one async for one in run_checks(settings_for(server, provider))]
        assert gone.wait(10)
    made = {(one.service, one.check): one for one in found if one.status != "skipped"}
    assert list(made) == [
        *((provider, check) for check in ("stream", "tool call", "stop", "error")),
        ("embeddings", "embedding"),
    ]
    assert {one.status for one in made.values()} == {"ok"}, made
    skipped = {one.service: one.detail for one in found if one.status == "skipped"}
    assert provider not in skipped
    assert {"deepseek", "mistral", "compatible"} <= set(skipped)


async def test_what_a_service_does_wrong_fails_its_check_and_the_others_are_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unlike = Answer(body={"data": [{"index": i, "embedding": [1.0, 0.0]} for i in range(3)]})
    with ScriptedServer() as server:
        server.play(UNKNOWN, *(streamed(openai_text("No.")) for _ in range(3)), unlike)
        assert await report(settings_for(server, "openai")) == 1
    lines = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith(("ok", "failed"))
    ]
    assert [line.split(":")[0] for line in lines] == [
        "failed  openai stream",
        "failed  openai tool call",
        "ok      openai stop",
        "failed  openai error",
        "failed  embeddings embedding",
    ]


async def test_without_keys_everything_is_said_to_be_skipped_and_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await report(load_settings()) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert all(line.startswith("skipped") for line in lines)
    assert last == "Nothing was checked: no key and no address of a service is set."
    assert "skipped qwen: no key: set DASHSCOPE_API_KEY" in lines
    for name in ("deepseek", "openai", "anthropic", "mistral", "compatible", "embeddings"):
        assert any(line.startswith(f"skipped {name}") for line in lines), name


def test_keys_and_addresses_go_to_no_service_they_were_not_set_for() -> None:
    settings = load_settings(
        openai_api_key="sk-of-openai",
        llm_base_url="http://127.0.0.1:1/v1",
        llm_api_key="sk-local",
        model="m",
    )
    openai = choose(settings_of("openai", settings))
    assert openai.base_url == ENTRIES["openai"].base_url
    assert openai.key is not None
    assert openai.key.get_secret_value() == "sk-of-openai"
    named = load_settings(provider="compatible", llm_base_url="http://127.0.0.1:1/v1", model="m")
    assert choose(settings_of("compatible", named)).base_url == "http://127.0.0.1:1/v1"
    with pytest.raises(SettingsError):
        choose(settings_of("openai", named))
