"""The table of what can go wrong on the way to a model and back: what is raised, said, and asked again.

Each row runs through the real client package of each format, against a server that does just that.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from graphrag.agent.failures import classify
from graphrag.llm import errors
from graphrag.llm.attempts import RetryPolicy
from graphrag.llm.base import Finished, LLMProvider, ToolCallReady
from tests.graphrag.llm.wire import (
    KEY,
    Pauses,
    anthropic_provider,
    anthropic_text,
    chunks_of,
    delta,
    events,
    message_end,
    message_start,
    openai_provider,
    openai_text,
    sse,
    streamed,
    text_block,
    text_of,
)
from tests.support.scripted_http import Answer, ScriptedServer

ATTEMPTS = RetryPolicy().attempts


def refused(status: int, message: str = "no", **headers: str) -> Callable[[str], Answer]:
    """An error body as each format writes it; it repeats the key, as some servers do."""

    def answer(api: str) -> Answer:
        error: dict[str, Any] = {"message": f"{message} {KEY}", "type": "some_error"}
        body = {"error": error} if api == "openai" else {"type": "error", "error": error}
        return Answer(status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


def body(openai: bytes, anthropic: bytes, **more: Any) -> Callable[[str], Answer]:
    return lambda api: streamed(openai if api == "openai" else anthropic, **more)


BEGUN = sse(delta(content="Hel"), done=False), events(message_start(), *text_block(0, "Hel"))
"""A stream that has begun and not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    answer: Callable[[str], Answer]
    error: type[errors.ModelError]
    code: str
    requests: int = 1
    retryable: bool = False
    status: int | None = None
    text: str = ""


ROWS = {
    "429 with retry-after": Row(
        answer=refused(429, "slow down", retry_after="7"),
        error=errors.ModelRateLimited,
        code="rate_limit",
        requests=ATTEMPTS,
        retryable=True,
        status=429,
    ),
    "429, quota used up": Row(
        answer=refused(429, "insufficient_quota: check your plan and billing"),
        error=errors.ModelNoCredit,
        code="no_credit",
        status=429,
    ),
    "429 with a pause too long to wait": Row(
        answer=refused(429, "tomorrow", retry_after="86400"),
        error=errors.ModelRateLimited,
        code="rate_limit",
        retryable=True,
        status=429,
    ),
    "500": Row(
        answer=refused(500),
        error=errors.ModelFailed,
        code="server_error",
        requests=ATTEMPTS,
        retryable=True,
        status=500,
    ),
    "503, not to be tried again": Row(
        answer=refused(503, x_should_retry="false"),
        error=errors.ModelFailed,
        code="server_error",
        status=503,
    ),
    "529 overloaded": Row(
        answer=refused(529),
        error=errors.ModelFailed,
        code="server_error",
        requests=ATTEMPTS,
        retryable=True,
        status=529,
    ),
    "error page of a gateway": Row(
        answer=lambda _: Answer(
            status=502, body=b"<html>Bad Gateway</html>", headers={"content-type": "text/html"}
        ),
        error=errors.ModelFailed,
        code="server_error",
        requests=ATTEMPTS,
        retryable=True,
        status=502,
    ),
    "401": Row(answer=refused(401), error=errors.ModelUnauthorized, code="auth_error", status=401),
    "402 no credit": Row(answer=refused(402), error=errors.ModelNoCredit, code="no_credit", status=402),
    "400 no credit": Row(
        answer=refused(400, "Your credit balance is too low to access the API"),
        error=errors.ModelNoCredit,
        code="no_credit",
        status=400,
    ),
    "408": Row(
        answer=refused(408, "request timed out"),
        error=errors.ModelTimedOut,
        code="timeout",
        requests=ATTEMPTS,
        retryable=True,
        status=408,
    ),
    "web page in place of an answer": Row(
        answer=lambda _: Answer(body=b"<html>Welcome</html>", headers={"content-type": "text/html"}),
        error=errors.ModelAnswerMalformed,
        code="server_error",
    ),
    "404 unknown model": Row(
        answer=refused(404), error=errors.ModelRequestRefused, code="request_refused", status=404
    ),
    "context length": Row(
        answer=refused(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        error=errors.ModelContextTooLong,
        code="context_length",
        status=400,
    ),
    "content filter": Row(
        answer=refused(
            400, "The response was filtered due to the prompt triggering content management policy"
        ),
        error=errors.ModelContentFiltered,
        code="content_filter",
        status=400,
    ),
    "answer filtered": Row(
        answer=body(
            sse(delta(content="Hel"), delta("content_filter")),
            events(message_start(), *text_block(0, "Hel"), *message_end("refusal")),
        ),
        error=errors.ModelContentFiltered,
        code="content_filter",
        text="Hel",
    ),
    "connection dropped before an answer": Row(
        answer=lambda _: Answer(fault="drop"),
        error=errors.ModelUnreachable,
        code="network",
        requests=ATTEMPTS,
        retryable=True,
    ),
    "reset in the middle of the stream": Row(
        answer=body(*BEGUN, fault="reset"),
        error=errors.ModelStreamBroken,
        code="network",
        retryable=True,
        text="Hel",
    ),
    "stream cut without HTTP's end": Row(
        answer=body(*BEGUN, fault="truncate"),
        error=errors.ModelStreamBroken,
        code="network",
        retryable=True,
        text="Hel",
    ),
    "stream that ends without a reason": Row(
        answer=body(
            sse(delta(content="Hel")),
            events(message_start(), *text_block(0, "Hel"), {"type": "message_stop"}),
        ),
        error=errors.ModelStreamBroken,
        code="network",
        retryable=True,
        text="Hel",
    ),
    "empty body": Row(
        answer=body(b"", b""),
        error=errors.ModelStreamBroken,
        code="network",
        requests=ATTEMPTS,
        retryable=True,
    ),
    "malformed chunk": Row(
        answer=body(
            sse(delta(content="Hel"), '{"choices": [{"del', done=True),
            BEGUN[1] + b'event: content_block_delta\ndata: {"type": "content_bl\n\n',
        ),
        error=errors.ModelAnswerMalformed,
        code="server_error",
        retryable=True,
        text="Hel",
    ),
    "chunk that is no object": Row(
        answer=body(
            sse(delta(content="Hel"), "[1, 2]"), BEGUN[1] + b"event: content_block_delta\ndata: [1, 2]\n\n"
        ),
        error=errors.ModelAnswerMalformed,
        code="server_error",
        retryable=True,
        text="Hel",
    ),
    "chunk of another shape": Row(
        answer=body(
            sse({"choices": [{"index": 0, "delta": {"content": {"a": 1}}}]}),
            BEGUN[1] + events({"type": "content_block_delta", "index": 0.5, "delta": {"type": "text_delta"}}),
        ),
        error=errors.ModelAnswerMalformed,
        code="server_error",
        retryable=True,
    ),
    "error inside the stream": Row(
        answer=body(
            sse(delta(content="Hel"), {"error": {"message": f"busy {KEY}", "code": 503}}),
            BEGUN[1]
            + events(
                {"type": "error", "error": {"type": "overloaded_error", "message": f"Overloaded {KEY}"}}
            ),
        ),
        error=errors.ModelFailed,
        code="server_error",
        retryable=True,
        text="Hel",
    ),
    "empty reply": Row(
        answer=body(sse(delta("stop", content="")), events(message_start(), *message_end("end_turn"))),
        error=errors.ModelEmptyReply,
        code="server_error",
        requests=2,
        retryable=True,
    ),
}
_SHAPE = ("chunk of another shape",)
"""Rows whose text or repetition depends on the format."""


def provider_of(api: str, server: ScriptedServer | str, pauses: Pauses, **settings: Any) -> LLMProvider:
    made = openai_provider if api == "openai" else anthropic_provider
    return made(server, pauses, **settings)


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize("name", ROWS)
async def test_a_fault_is_named_reported_and_asked_again_only_where_that_helps(name: str, api: str) -> None:
    row, pauses = ROWS[name], Pauses()
    begun = api == "anthropic" and name in _SHAPE  # its text came before the bad piece
    requests = ATTEMPTS if name in _SHAPE and not begun else row.requests
    with ScriptedServer() as server:
        # A reset may overtake what was sent before it: it waits until that is read.
        read = threading.Event()
        answer = row.answer(api)
        server.play(*[replace(answer, fault_when=read) if row.text and answer.fault else answer] * requests)
        provider = provider_of(api, server, pauses)
        chunks, error = await chunks_of(provider, first=read)
        await provider.aclose()
    assert type(error) is row.error, error
    assert text_of(chunks) == ("Hel" if begun else row.text)
    assert not any(isinstance(chunk, Finished | ToolCallReady) for chunk in chunks)
    assert len(server.requests) == requests
    assert len(pauses.seconds) == requests - 1
    fault = classify(error)
    assert (fault.code, fault.retryable) == (row.code, row.retryable)
    if row.status is not None:
        assert error.status == row.status
    for reported in (fault.en, fault.fr, str(error), repr(error)):
        assert KEY not in reported
        assert "Traceback" not in reported
    assert fault.en != fault.fr


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("headers", "pause_s"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
async def test_the_pause_asked_for_is_kept_and_then_the_answer_comes(
    api: str, headers: dict[str, str], pause_s: float
) -> None:
    pauses = Pauses()
    with ScriptedServer() as server:
        whole = openai_text("Hello") if api == "openai" else anthropic_text("Hello")
        server.play(Answer(status=429, body={"error": {"message": "slow"}}, headers=headers), streamed(whole))
        provider = provider_of(api, server, pauses)
        chunks, error = await chunks_of(provider)
        await provider.aclose()
    assert error is None
    assert text_of(chunks) == "Hello"
    assert pauses.seconds == [pytest.approx(pause_s)]


@pytest.mark.parametrize(
    "headers", [{}, {"retry-after": "soon"}, {"retry-after": "-3"}, {"retry-after": "nan"}]
)
async def test_without_a_usable_pause_the_pauses_grow(headers: dict[str, str]) -> None:
    pauses = Pauses()
    with ScriptedServer() as server:
        server.play(*[Answer(status=429, body={}, headers=headers)] * ATTEMPTS)
        provider = openai_provider(server, pauses)
        _, error = await chunks_of(provider)
        await provider.aclose()
    assert isinstance(error, errors.ModelRateLimited)
    for number, seconds in enumerate(pauses.seconds):
        assert 0.5 * 2**number <= seconds <= 2**number


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_port_where_nobody_listens_is_unreachable(api: str) -> None:
    with socket.socket() as taken:  # bound, not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        provider = provider_of(api, f"http://127.0.0.1:{taken.getsockname()[1]}", Pauses())
        _, error = await chunks_of(provider)
        await provider.aclose()
    assert isinstance(error, errors.ModelUnreachable)
    assert classify(error).code == "network"


async def test_a_secret_in_the_words_of_a_server_is_hidden() -> None:
    said = f"bad key {KEY} at https://user:secret@host/v1?api_key=hush, Bearer abc.def, sk-proj-ABCDEF123456"
    with ScriptedServer() as server:
        server.play(Answer(status=401, body=json.dumps({"error": {"message": said}}).encode()))
        provider = openai_provider(server)
        _, error = await chunks_of(provider)
        await provider.aclose()
    assert error is not None
    shown = str(error) + classify(error).en
    for secret in (KEY, "user:secret", "hush", "abc.def", "sk-proj-ABCDEF123456"):
        assert secret not in shown


@pytest.mark.parametrize("make", [openai_provider, anthropic_provider])
async def test_a_conversation_does_not_follow_a_server_to_another_address(
    make: Callable[..., LLMProvider],
) -> None:
    with ScriptedServer() as asked, ScriptedServer() as elsewhere:
        asked.play(Answer(status=307, headers={"Location": f"{elsewhere.url}/v1"}, body=b""))
        provider = make(asked, retry=RetryPolicy(attempts=3))
        chunks, error = await chunks_of(provider)
        await provider.aclose()
        assert elsewhere.requests == []
    assert chunks == []
    assert isinstance(error, errors.ModelRequestRefused)
    assert "set the new one" in error.reason


TOO_LONG = "This model's maximum context length is 4096 tokens"
BODIES: dict[str, Any] = {
    "message": {"error": {"message": TOO_LONG, "type": "invalid_request_error", "code": 400}},
    "error as text": {"error": TOO_LONG},
    "detail as text": {"detail": TOO_LONG},
    "detail as a list": {"detail": [{"loc": ["body"], "msg": TOO_LONG, "type": "value_error"}]},
    "message at the top": {"message": TOO_LONG, "object": "error"},
    "plain text": TOO_LONG.encode(),
    "what another provider said": {
        "error": {
            "message": "Provider returned error",
            "code": 400,
            "metadata": {"raw": json.dumps({"error": {"message": TOO_LONG}}), "provider_name": "Other"},
        }
    },
    "llama.cpp": {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 5265,
            "n_ctx": 4096,
        }
    },
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_reason_is_found_wherever_a_server_puts_it(name: str) -> None:
    with ScriptedServer() as server:
        server.play(Answer(status=400, body=BODIES[name]))
        provider = openai_provider(server)
        _, error = await chunks_of(provider)
        await provider.aclose()
    assert isinstance(error, errors.ModelContextTooLong)
    assert "context" in error.reason


async def test_a_reason_given_within_the_stream_as_text_is_found_too() -> None:
    with ScriptedServer() as server:
        server.play(streamed(sse({"error": TOO_LONG}, done=False)))
        provider = openai_provider(server)
        _, error = await chunks_of(provider)
        await provider.aclose()
    assert isinstance(error, errors.ModelContextTooLong)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("connect to llm-3.internal failed", "connect to [host] failed"),
        ("http://10.1.2.3:8000/v1 is down", "http://[host]:8000/v1 is down"),
        ("HTTPConnectionPool(host='gpu7', port=8000)", "HTTPConnectionPool(host='[host]', port=8000)"),
        ("upstream vllm-0:8000 timed out", "upstream [host] timed out"),
        ("http://backend/generate", "http://[host]/generate"),
        ("see https://platform.example.com/docs", "see https://platform.example.com/docs"),
        ("HTTP 429: try again at 10:30", "HTTP 429: try again at 10:30"),
    ],
)
def test_names_of_internal_hosts_are_not_shown(said: str, kept: str) -> None:
    assert errors.ModelFailed(provider="p", reason=said).reason == kept
