"""The table of what can go wrong on the way to a model and back: what is raised, said,
and asked again.

Each row runs through the real client package of each format, against a server that does just that.
"""

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from graphrag.agent.events import classify
from graphrag.llm import errors
from graphrag.llm.base import Finished, LLMProvider, PromptRead, ToolCallReady
from graphrag.llm.registry import AnswerTimeouts, RetryPolicy
from graphrag.llm.sdk import SDK_TIMEOUTS
from tests.graphrag.llm.wire import (
    BEGUN,
    KEY,
    Pauses,
    answered,
    anthropic_provider,
    anthropic_text,
    body,
    chunks_of,
    delta,
    events,
    message_end,
    message_start,
    openai_provider,
    openai_text,
    refused,
    sse,
    streamed,
    text_block,
    text_of,
)
from tests.support.scripted_http import Answer, ScriptedServer

ATTEMPTS = RetryPolicy().attempts


@dataclass(frozen=True, slots=True)
class Row:
    """`later`: the same question may be answered later; it is asked `times` again."""

    error: type[errors.ModelError]
    answer: Callable[[str], Answer]
    later: bool = False
    times: int = 0
    text: str = ""


def now(error: type[errors.ModelError], answer: Callable[[str], Answer], text: str = "") -> Row:
    """A fault that the same question meets again."""
    return Row(error, answer, text=text)


def again(
    error: type[errors.ModelError], answer: Callable[[str], Answer], times: int = ATTEMPTS - 1
) -> Row:
    """A fault after which the question is asked again by itself."""
    return Row(error, answer, later=True, times=times)


def begun(error: type[errors.ModelError], answer: Callable[[str], Answer]) -> Row:
    """A fault after a part of the answer was shown: a person may ask again."""
    return Row(error, answer, later=True, text="Hel")


CODES = {
    errors.ModelRateLimited: "rate_limit",
    errors.ModelNoCredit: "no_credit",
    errors.ModelFailed: "server_error",
    errors.ModelUnauthorized: "auth_error",
    errors.ModelTimedOut: "timeout",
    errors.ModelAnswerMalformed: "server_error",
    errors.ModelRequestRefused: "request_refused",
    errors.ModelContextTooLong: "context_length",
    errors.ModelContentFiltered: "content_filter",
    errors.ModelUnreachable: "network",
    errors.ModelStreamBroken: "network",
}
LATE = refused(429, "tomorrow", retry_after="86400")
GATEWAY = Answer(
    status=502, body=b"<html>Bad Gateway</html>", headers={"content-type": "text/html"}
)
PAGE = Answer(body=b"<html>Welcome</html>", headers={"content-type": "text/html"})
SHAPE = (
    sse({"choices": [{"index": 0, "delta": {"content": {"a": 1}}}]}),
    BEGUN[1]
    + events({"type": "content_block_delta", "index": 0.5, "delta": {"type": "text_delta"}}),
)
MALFORMED = (
    sse(delta(content="Hel"), '{"choices": [{"del', done=True),
    BEGUN[1] + b'event: content_block_delta\ndata: {"type": "content_bl\n\n',
)
NO_OBJECT = (
    sse(delta(content="Hel"), "[1, 2]"),
    BEGUN[1] + b"event: content_block_delta\ndata: [1, 2]\n\n",
)
FILTERED = (
    sse(delta(content="Hel"), delta("content_filter")),
    events(message_start(), *text_block(0, "Hel"), *message_end("refusal")),
)
NO_REASON = (
    sse(delta(content="Hel")),
    events(message_start(), *text_block(0, "Hel"), {"type": "message_stop"}),
)
BUSY = (
    sse(delta(content="Hel"), {"error": {"message": f"busy {KEY}", "code": 503}}),
    BEGUN[1]
    + events(
        {"type": "error", "error": {"type": "overloaded_error", "message": f"Overloaded {KEY}"}}
    ),
)
NOTHING = sse(delta("stop", content="")), events(message_start(), *message_end("end_turn"))
POLICY = "The response was filtered due to the prompt triggering content management policy"
ROWS = {
    "429 with retry-after": again(
        errors.ModelRateLimited, refused(429, "slow down", retry_after="7")
    ),
    "429, quota used up": now(
        errors.ModelNoCredit, refused(429, "insufficient_quota: check your plan")
    ),
    "429 with a pause too long to wait": again(errors.ModelRateLimited, LATE, times=0),
    "500": again(errors.ModelFailed, refused(500)),
    "503, not to be tried again": now(errors.ModelFailed, refused(503, x_should_retry="false")),
    "529 overloaded": again(errors.ModelFailed, refused(529)),
    "error page of a gateway": again(errors.ModelFailed, lambda _: GATEWAY),
    "401": now(errors.ModelUnauthorized, refused(401)),
    "402 no credit": now(errors.ModelNoCredit, refused(402)),
    "400 no credit": now(errors.ModelNoCredit, refused(400, "Your credit balance is too low")),
    "408": again(errors.ModelTimedOut, refused(408, "request timed out")),
    "web page in place of an answer": now(errors.ModelAnswerMalformed, lambda _: PAGE),
    "404 unknown model": now(errors.ModelRequestRefused, refused(404)),
    "context length": now(
        errors.ModelContextTooLong, refused(400, "prompt is too long: 210000 tokens")
    ),
    "content filter": now(errors.ModelContentFiltered, refused(400, POLICY)),
    "answer filtered": now(errors.ModelContentFiltered, body(*FILTERED), text="Hel"),
    "connection dropped before an answer": again(
        errors.ModelUnreachable, lambda _: Answer(fault="drop")
    ),
    "reset in the middle of the stream": begun(
        errors.ModelStreamBroken, body(*BEGUN, fault="reset")
    ),
    "stream cut without HTTP's end": begun(
        errors.ModelStreamBroken, body(*BEGUN, fault="truncate")
    ),
    "stream that ends without a reason": begun(errors.ModelStreamBroken, body(*NO_REASON)),
    "empty body": again(errors.ModelStreamBroken, body(b"", b"")),
    "malformed chunk": begun(errors.ModelAnswerMalformed, body(*MALFORMED)),
    "chunk that is no object": begun(errors.ModelAnswerMalformed, body(*NO_OBJECT)),
    "chunk of another shape": again(errors.ModelAnswerMalformed, body(*SHAPE)),
    "error inside the stream": begun(errors.ModelFailed, body(*BUSY)),
}


MAKERS: dict[str, Callable[..., LLMProvider]] = {
    "openai": openai_provider,
    "anthropic": anthropic_provider,
}


@pytest.mark.slow
@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize("name", [*ROWS])
async def test_a_fault_is_named_reported_and_asked_again_only_where_that_helps(
    name: str, api: str
) -> None:
    row = ROWS[name]
    pauses = Pauses()
    if (name, api) == ("chunk of another shape", "anthropic"):  # its text came before the bad piece
        row = replace(row, text="Hel", times=0)
    with ScriptedServer() as server:
        # A reset may overtake what was sent before it: it waits until that is read.
        read = threading.Event()
        answer = row.answer(api)
        one = replace(answer, fault_when=read) if row.text and answer.fault else answer
        server.play(*[one] * (row.times + 1))
        provider = MAKERS[api](server, pauses)
        chunks, error = await chunks_of(provider, first=read)
        await provider.aclose()
    assert type(error) is row.error, error
    assert text_of(chunks) == row.text
    assert not any(isinstance(chunk, Finished | ToolCallReady) for chunk in chunks)
    assert len(server.requests) == row.times + 1
    assert len(pauses.seconds) == row.times
    fault = classify(error)
    assert (fault.code, fault.retryable) == (CODES[row.error], row.later)
    if name[:3].isdigit():
        assert error.status == int(name[:3])
    for reported in (*fault.messages.values(), str(error), repr(error)):
        assert KEY not in reported
        assert "Traceback" not in reported
    assert fault.message("en") != fault.message("fr")


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_an_empty_answer_is_an_answer_that_is_paid_and_asked_for_once(api: str) -> None:
    chunks, error = await answered(MAKERS[api], body(*NOTHING)(api))
    assert error is None
    assert chunks[-1] == Finished(reason="stop")


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
    slow = Answer(status=429, body={"error": {"message": "slow"}}, headers=headers)
    whole = streamed(openai_text("Hello") if api == "openai" else anthropic_text("Hello"))
    chunks, error = await answered(MAKERS[api], slow, whole, sleep=pauses)
    assert error is None
    assert text_of(chunks) == "Hello"
    assert pauses.seconds == [pytest.approx(pause_s)]


LOADING = Answer(
    status=503,
    body={"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
)


async def test_a_server_that_loads_its_model_is_waited_for_and_that_is_said_once() -> None:
    pauses = Pauses()
    chunks, error = await answered(
        openai_provider, *[LOADING] * (ATTEMPTS + 3), streamed(openai_text("Hello")), sleep=pauses
    )
    assert error is None
    assert text_of(chunks) == "Hello"
    assert [chunk.loading for chunk in chunks if isinstance(chunk, PromptRead)] == [True]
    assert len(pauses.seconds) == ATTEMPTS + 3


async def test_a_model_that_is_never_loaded_is_waited_for_no_longer_than_an_answer_may_take() -> (
    None
):
    pauses = Pauses()
    _, error = await answered(
        openai_provider,
        *[LOADING] * (ATTEMPTS + 2),
        sleep=pauses,
        timeouts=AnswerTimeouts(total_s=2 * SDK_TIMEOUTS.loading_pause_s),
    )
    assert isinstance(error, errors.ModelFailed)
    assert error.loading
    assert pauses.seconds[:2] == [SDK_TIMEOUTS.loading_pause_s] * 2
    assert len(pauses.seconds) == ATTEMPTS + 1


@pytest.mark.parametrize(
    "headers", [{}, {"retry-after": "soon"}, {"retry-after": "-3"}, {"retry-after": "nan"}]
)
async def test_without_a_usable_pause_the_pauses_grow(headers: dict[str, str]) -> None:
    pauses = Pauses()
    _, error = await answered(
        openai_provider, *[Answer(status=429, body={}, headers=headers)] * ATTEMPTS, sleep=pauses
    )
    assert isinstance(error, errors.ModelRateLimited)
    for number, seconds in enumerate(pauses.seconds):
        assert 0.5 * 2**number <= seconds <= 2**number


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_port_where_nobody_listens_is_unreachable(api: str) -> None:
    with socket.socket() as taken:  # bound, not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        provider = MAKERS[api](f"http://127.0.0.1:{taken.getsockname()[1]}")
        _, error = await chunks_of(provider)
        await provider.aclose()
    assert isinstance(error, errors.ModelUnreachable)
    assert classify(error).code == "network"


async def test_a_secret_in_the_words_of_a_server_is_hidden() -> None:
    said = f"bad key {KEY} at https://user:secret@host/v1?api_key=hush, Bearer abc.def, sk-proj-ABCDEF123456"
    _, error = await answered(
        openai_provider, Answer(status=401, body=json.dumps({"error": {"message": said}}).encode())
    )
    assert error is not None
    shown = str(error) + classify(error).message("en")
    for secret in (KEY, "user:secret", "hush", "abc.def", "sk-proj-ABCDEF123456"):
        assert secret not in shown


@pytest.mark.parametrize("make", [openai_provider, anthropic_provider])
async def test_no_conversation_follows_a_server_to_another_address(
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
            "metadata": {
                "raw": json.dumps({"error": {"message": TOO_LONG}}),
                "provider_name": "Other",
            },
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


@pytest.mark.parametrize("name", [*BODIES])
async def test_a_reason_is_found_wherever_a_server_puts_it(name: str) -> None:
    _, error = await answered(openai_provider, Answer(status=400, body=BODIES[name]))
    assert isinstance(error, errors.ModelContextTooLong)
    assert "context" in error.reason


async def test_a_reason_given_within_the_stream_as_text_is_found_too() -> None:
    _, error = await answered(openai_provider, streamed(sse({"error": TOO_LONG}, done=False)))
    assert isinstance(error, errors.ModelContextTooLong)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("connect to llm-3.internal failed", "connect to [host] failed"),
        ("http://10.1.2.3:8000/v1 is down", "http://[host]:8000/v1 is down"),
        (
            "HTTPConnectionPool(host='gpu7', port=8000)",
            "HTTPConnectionPool(host='[host]', port=8000)",
        ),
        ("upstream vllm-0:8000 timed out", "upstream [host] timed out"),
        ("http://backend/generate", "http://[host]/generate"),
        ("see https://platform.example.com/docs", "see https://platform.example.com/docs"),
        ("HTTP 429: try again at 10:30", "HTTP 429: try again at 10:30"),
    ],
)
def test_names_of_internal_hosts_are_not_shown(said: str, kept: str) -> None:
    assert errors.ModelFailed(provider="p", reason=said).reason == kept
