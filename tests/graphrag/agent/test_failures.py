"""Faults: every error of a model has a code, two sentences and no secret, and client errors are all known."""

from __future__ import annotations

import inspect
from typing import Any

import httpx2
import openai

from datasources.errors import DatabaseBusy, GraphNotFound, SourceTimeout
from graphrag.agent.events import FAULT_CODES, classify
from graphrag.agent.thread_store import ThreadBusy
from graphrag.approvals import NotAllowed
from graphrag.embedding.embedder import EmbeddingRefused
from graphrag.llm import errors
from graphrag.llm.errors import ModelError
from graphrag.llm.usage_meter import UsageLimitReached
from tests.graphrag.llm.wire import anthropic_provider, openai_provider
from tests.support.each_row import each_row

NOWHERE = "http://127.0.0.1:1"
OPENAI = openai_provider(NOWHERE)
REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1")


def model_errors() -> list[type[ModelError]]:
    found = (kind for _, kind in inspect.getmembers(errors, inspect.isclass))
    return [kind for kind in found if issubclass(kind, ModelError) and kind is not ModelError]


def made(kind: type[ModelError], reason: str) -> ModelError:
    if kind is errors.ModelTimedOut:
        return errors.ModelTimedOut(provider="p", seconds=3, reason=reason)
    return kind(provider="p", reason=reason)


@each_row("kind", model_errors())
def test_every_error_of_a_model_is_reported_in_two_languages_without_secrets(kind: type[ModelError]) -> None:
    fault = classify(made(kind, "key sk-abcdef123456 at http://me:pw@host/?key=hush"))
    assert fault.code in FAULT_CODES
    assert fault.message("en") == fault.en != fault.fr == fault.message("fr")
    for reported in (fault.en, fault.fr):
        assert not any(secret in reported for secret in ("abcdef123456", "me:pw", "hush"))


@each_row(
    "exc, code, retryable",
    [
        (GraphNotFound(graph_key="g"), "not_found", False),
        (ThreadBusy(thread_id="t"), "busy", True),
        (DatabaseBusy(path="db", seconds=5), "busy", True),
        (NotAllowed(code="proposing_needs_editor", user_id="u", role="viewer"), "forbidden", False),
        (SourceTimeout(source="db", seconds=5), "timeout", True),
        (EmbeddingRefused(provider="e", status=429, reason="", retryable=True), "rate_limit", True),
        (UsageLimitReached(limit="total_tokens", allowed=5, reached=6), "usage_limit", False),
        (TimeoutError("db password hunter2"), "timeout", True),
        (ConnectionResetError("hunter2"), "network", True),
        (RuntimeError("hunter2"), "internal", False),
        (KeyboardInterrupt(), "internal", False),
    ],
)
def test_any_failure_has_a_code_and_an_unforeseen_ones_text_is_kept_back(
    exc: BaseException, code: str, retryable: bool
) -> None:
    fault = classify(exc)
    assert (fault.code, fault.retryable) == (code, retryable)
    assert "hunter2" not in fault.en + fault.fr
    assert fault.en
    assert fault.fr


def test_a_pause_asked_for_is_handed_on() -> None:
    fault = classify(errors.ModelRateLimited(provider="p", reason="", status=429, retry_after_s=90))
    assert (fault.retry_after_s, fault.retryable) == (90, True)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    for kind in model_errors():
        assert kind.__name__ in errors.__doc__


def example(kind: type[Exception], package: Any) -> Exception:
    """Make an exception of a client library, as the library makes it."""
    if issubclass(kind, package.APITimeoutError):
        return kind(REQUEST)
    if issubclass(kind, package.APIConnectionError):
        return kind(message="gone", request=REQUEST)  # type: ignore[call-arg]
    if issubclass(kind, package.APIStatusError):
        status = getattr(kind, "status_code", 500)
        response = httpx2.Response(status if isinstance(status, int) else 500, request=REQUEST)
        arguments = inspect.signature(kind).parameters
        facts: dict[str, Any] = {"response": response, "body": None}
        return kind("no", **facts) if "message" in arguments else kind(**facts)
    if issubclass(kind, package.APIResponseValidationError):
        return kind(httpx2.Response(200, request=REQUEST), None)
    if issubclass(kind, package.APIError):
        return kind("no", REQUEST, body=None)  # type: ignore[call-arg]
    try:
        return kind("no")
    except TypeError:  # it wants more than words, none of which is read
        return kind.__new__(kind)


def exceptions_of(package: Any, base: type[Exception]) -> list[type[Exception]]:
    # Neither `inspect.getmembers` nor `isinstance`: they load what the package loads when it is asked for.
    kinds = (kind for kind in [*vars(package).values()] if issubclass(type(kind), type))
    return [kind for kind in kinds if issubclass(kind, base)]


@each_row("kind", exceptions_of(openai, openai.OpenAIError))
def test_every_exception_of_the_openai_package_is_translated(kind: type[Exception]) -> None:
    assert type(OPENAI.translated(example(kind, openai), begun=False)) in model_errors()


def test_every_exception_of_the_anthropic_package_is_translated() -> None:
    import anthropic  # a second to load

    provider, kinds = anthropic_provider(NOWHERE), exceptions_of(anthropic, anthropic.AnthropicError)
    assert kinds
    for kind in kinds:
        assert type(provider.translated(example(kind, anthropic), begun=False)) in model_errors(), kind


@each_row("kind", exceptions_of(httpx2, httpx2.HTTPError))
def test_every_exception_of_the_transport_is_translated(kind: type[Exception]) -> None:
    exc = kind.__new__(kind)
    assert type(OPENAI.translated(exc, begun=True)) in model_errors()
    assert type(anthropic_provider(NOWHERE).translated(exc, begun=True)) in model_errors()
