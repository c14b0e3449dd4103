"""Asks any server that speaks OpenAI's chat completions or Responses, through the `openai` package."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from typing import Any, Literal, cast

import httpx2
import openai

from graphrag.llm.answers import AnswerReader, CallIds
from graphrag.llm.attempts import AnswerClock, AnswerTimeouts, RetryPolicy
from graphrag.llm.base import Message, ModelOptions, ToolSchema
from graphrag.llm.errors import ModelError
from graphrag.llm.message_text import LateSystem
from graphrag.llm.openai_chat import ChatReader, to_messages
from graphrag.llm.openai_responses import ResponsesReader, to_functions, to_input
from graphrag.llm.sdk import TIMEOUT, SdkErrors, SdkProvider
from graphrag.llm.sdk_errors import too_long
from graphrag.llm.server_facts import ServerFacts, read_facts

log = logging.getLogger(__name__)

Api = Literal["chat", "responses"]
_OPTIONAL = (
    *("stream_options", "temperature", "tool_choice", "max_tokens", "max_completion_tokens"),
    *("max_output_tokens", "store", "return_progress"),
)
_UNKNOWN = re.compile(
    r"unsupported|not supported|unknown|unrecognized|unexpected|not permitted|extra (?:fields|inputs)|"
    r"does not support|invalid (?:parameter|argument|field)|not allowed",
    re.IGNORECASE,
)


_ERRORS = SdkErrors(
    base=openai.OpenAIError,
    api=openai.APIError,
    status=openai.APIStatusError,
    timeout=openai.APITimeoutError,
    connection=openai.APIConnectionError,
)
LEARN_S = 2.0
"""How long a server may take to say what it serves, before a question is asked without knowing."""
ASK_AGAIN_S = 60.0


class OpenAICompatibleProvider(SdkProvider):
    """A setting that the server says it does not know (of `_OPTIONAL`) is left out from then on.

    `learns_window`: `context_window` is a guess that the server is asked about. `reports_progress`: it is
    asked to say how much of the prompt it has read.
    """

    def __init__(
        self,
        *,
        name: str,
        model: str,
        base_url: str,
        api_key: str | None = None,
        context_window: int = 32_000,
        max_tokens: int | None = None,
        max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
        temperature: float | None = None,
        late_system: LateSystem = "system",
        resend_reasoning: bool = False,
        finish_required: bool = True,
        api: Api = "chat",
        learns_window: bool = False,
        reports_progress: bool = False,
        timeouts: AnswerTimeouts | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        super().__init__(
            name=name,
            model=model,
            context_window=context_window,
            key=api_key,
            errors=_ERRORS,
            timeouts=timeouts or AnswerTimeouts(),
            retry=retry,
        )
        self._api, self._base_url = api, base_url
        self._max_tokens, self._temperature = max_tokens, temperature
        self._max_tokens_field = max_tokens_field
        self._late_system: LateSystem = late_system
        self._resend_reasoning, self._finish_required = resend_reasoning, finish_required
        self._learns_window, self._reports_progress = learns_window, reports_progress
        self._asked_at = -ASK_AGAIN_S
        self._unknown: set[str] = set()
        # A local server needs no key, but the client insists on one. Both are given, or it would
        # look for them in the environment.
        self._client = openai.AsyncOpenAI(
            api_key=api_key or "no-key",
            base_url=base_url,
            organization="",
            project="",
            timeout=TIMEOUT,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),  # no prompt goes elsewhere
        )

    async def aclose(self) -> None:
        await self._client.close()

    async def facts(self) -> ServerFacts:
        """Ask the server for its models and the window of ours. Raises: ModelError."""

        async def get(url: str) -> Any:
            return await self._client.get(url, cast_to=object)

        try:
            return await read_facts(get, self._base_url, self._model)
        except (openai.OpenAIError, httpx2.HTTPError, OSError) as exc:
            raise self.translated(exc, begun=False) from exc

    async def learn_window(self) -> None:
        now = time.monotonic()
        if not self._learns_window or now - self._asked_at < ASK_AGAIN_S:
            return
        self._asked_at = now
        try:
            async with asyncio.timeout(LEARN_S):
                window = (await self.facts()).window
        except (ModelError, TimeoutError) as exc:
            log.info("window_unknown", extra={"provider": self._name, "error": type(exc).__name__})
            return
        if window:
            self._context_window, self._learns_window = window, False
        log.info("window_learnt", extra={"provider": self._name, "tokens": window})

    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], options: ModelOptions
    ) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self._model, "stream": True}
        if self._api == "responses":
            request |= {"input": to_input(messages, late_system=self._late_system), "store": False}
        else:
            late, thinking = self._late_system, self._resend_reasoning
            request["messages"] = to_messages(messages, late_system=late, resend_reasoning=thinking)
            request["stream_options"] = {"include_usage": True}
            if self._reports_progress:
                request["return_progress"] = True
        max_tokens = options.max_tokens or self._max_tokens
        if max_tokens:
            request[self._max_tokens_field if self._api == "chat" else "max_output_tokens"] = max_tokens
        temperature = self._temperature if options.temperature is None else options.temperature
        if temperature is not None:
            request["temperature"] = temperature
        if tools:
            request["tools"] = [dict(t) for t in tools] if self._api == "chat" else to_functions(tools)
            if options.tool_choice != "auto":
                request["tool_choice"] = options.tool_choice
        return request

    def _reader(self, ids: CallIds) -> AnswerReader:
        if self._api == "responses":
            return ResponsesReader(self._name, ids)
        return ChatReader(self._name, ids, finish_required=self._finish_required)

    async def _send(self, request: dict[str, Any], clock: AnswerClock) -> Any:
        """Send the request, without what the server does not know."""
        asked = self._client.responses if self._api == "responses" else self._client.chat.completions
        create = cast(Any, asked.with_raw_response.create)
        while True:
            sent = self._known(request)
            extra = {name: sent.pop(name) for name in ("return_progress",) if name in sent}
            try:
                return await clock.wait(create(**sent, extra_body=extra or None))
            except openai.APIStatusError as exc:
                unknown = _unknown_setting(exc, {**sent, **extra})
                if unknown is None:
                    raise
                self._unknown.add(unknown)
                log.info("model_setting_left_out", extra={"provider": self._name, "setting": unknown})

    def _known(self, request: dict[str, Any]) -> dict[str, Any]:
        sent = {name: value for name, value in request.items() if name not in self._unknown}
        limit = request.get("max_tokens") or request.get("max_completion_tokens")
        other = {"max_tokens", "max_completion_tokens"} - self._unknown - set(request)
        if limit and len(other) == 1 and not sent.keys() & {"max_tokens", "max_completion_tokens"}:
            sent[other.pop()] = limit  # the one setting has two names, and servers that know only one
        return sent


def _unknown_setting(exc: openai.APIStatusError, sent: dict[str, Any]) -> str | None:
    """Return which optional setting a refusal is about, if it is about one."""
    if exc.status_code not in (400, 422) or too_long(exc.message) or not _UNKNOWN.search(exc.message):
        return None
    named = [name for name in _OPTIONAL if name in sent and name in exc.message]
    if exc.param in sent and exc.param in _OPTIONAL:
        return exc.param
    return named[0] if named else None
