"""The provider for servers with OpenAI's chat completions or Responses, through the `openai`
package.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import openai

from graphrag.llm.answers import AnswerReader
from graphrag.llm.base import Message, ModelOptions, ServerFacts, ToolSchema
from graphrag.llm.errors import ModelError, too_long
from graphrag.llm.openai_chat import ChatReader, to_messages
from graphrag.llm.openai_responses import ResponsesReader, to_functions, to_input
from graphrag.llm.registry import ProviderChoice
from graphrag.llm.sdk import SdkProvider

log = logging.getLogger(__name__)

_OPTIONAL = (
    *("stream_options", "temperature", "tool_choice", "max_tokens", "max_completion_tokens"),
    *("max_output_tokens", "store", "return_progress", "include"),
)
_UNSUPPORTED = re.compile(
    r"unsupported|not supported|unknown|unrecognized|unexpected|not permitted|extra (?:fields|inputs)|"
    r"does not support|invalid (?:parameter|argument|field)|not allowed",
    re.IGNORECASE,
)


# Fields with the context window, of vLLM, LM Studio, llama.cpp, Ollama and OpenRouter; the last is
# LM Studio's for a model that is not loaded.
_WINDOW_FIELDS = (
    "max_model_len",
    "loaded_context_length",
    "n_ctx",
    "context_length",
    "max_context_length",
)
# Other addresses with the context window, of llama.cpp, Ollama and LM Studio.
_WINDOW_PATHS = ("/props", "/api/ps", "/api/v0/models")

# Seconds that a server may take to report its models before a question is asked without it.
FACTS_TIMEOUT_S = 2.0
FACTS_INTERVAL_S = 60.0


class OpenAICompatibleProvider(SdkProvider):
    """Calls a server with OpenAI's API. Omits a parameter (of `_OPTIONAL`) after the server refuses
    it.
    """

    def __init__(self, choice: ProviderChoice) -> None:
        super().__init__(choice, openai, openai.OpenAIError)
        self._learns_window = choice.learns_window
        self._asked_at = -FACTS_INTERVAL_S
        self._unsupported: set[str] = set()
        # A local server needs no key, but the client requires one. All are passed: otherwise the
        # client reads them from the environment.
        self._client = openai.AsyncOpenAI(
            api_key=choice.secret or "no-key", organization="", project="", **self._settings
        )

    async def facts(self) -> ServerFacts:
        """Asks the server for its models, and for the context window elsewhere if they do not
        contain it.

        Raises: ModelError.
        """
        base = self._choice.base_url.rstrip("/")
        try:
            listed = await self._entries(f"{base}/models")
        except self.failures as exc:
            raise self.translated(exc, begun=False) from exc
        names = tuple(str(entry["id"]) for entry in listed if "id" in entry)
        window = _window(listed, self.model)
        for path in _WINDOW_PATHS:
            if window is None:
                with suppress(Exception):  # servers without this address answer in any form
                    window = _window(
                        await self._entries(base.removesuffix("/v1") + path), self.model
                    )
        return ServerFacts(models=names, window=window)

    async def _entries(self, url: str) -> list[dict[str, Any]]:
        """Returns the objects at an address that may describe models: the items of a list, or one
        object.
        """
        raw = await self._client.get(url, cast_to=object)
        if not isinstance(raw, dict):
            return []
        fields = cast(dict[str, Any], raw)
        inner: Any = (
            fields.get("data")
            or fields.get("models")
            or [fields.get("default_generation_settings")]
        )
        entries = cast(list[Any], inner if isinstance(inner, list) else [])
        return [cast(dict[str, Any], entry) for entry in entries if isinstance(entry, dict)]

    async def learn_window(self) -> None:
        now = time.monotonic()
        if not self._learns_window or now - self._asked_at < FACTS_INTERVAL_S:
            return
        self._asked_at = now
        try:
            async with asyncio.timeout(FACTS_TIMEOUT_S):
                window = (await self.facts()).window
        except (ModelError, TimeoutError) as exc:
            log.info("window_unknown", extra={"provider": self.name, "error": type(exc).__name__})
            return
        if window:
            self.context_window = window
            self._learns_window = False
        log.info("window_learnt", extra={"provider": self.name, "tokens": window})

    def _request(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], options: ModelOptions
    ) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.model, "stream": True}
        choice = self._choice
        dialect = self._choice.entry
        is_chat = self._choice.api == "chat"
        if is_chat:
            request["messages"] = to_messages(messages)
            request["stream_options"] = {"include_usage": True}
            if dialect.local:
                request["return_progress"] = True
        else:
            request |= {"input": to_input(messages), "store": False}
            # The server stores nothing for us, so the reasoning is sent back and forth.
            request["include"] = ["reasoning.encrypted_content"]
        max_tokens = options.max_tokens or choice.max_tokens
        if max_tokens:
            request[dialect.max_tokens_field if is_chat else "max_output_tokens"] = max_tokens
        temperature = choice.temperature if options.temperature is None else options.temperature
        if temperature is not None:
            request["temperature"] = temperature
        if tools:
            request["tools"] = [dict(t) for t in tools] if is_chat else to_functions(tools)
            if options.tool_choice != "auto":
                request["tool_choice"] = options.tool_choice
        return request

    def _reader(self, messages: Sequence[Message]) -> AnswerReader:
        if self._choice.api == "responses":
            return ResponsesReader(self.name, messages, origin=self._choice.origin)
        return ChatReader(
            self.name,
            messages,
            origin=self._choice.origin,
            finish_required=self._choice.entry.finish_required,
        )

    async def _send(self, request: dict[str, Any], clock: Any) -> Any:
        """Sends the request without the parameters that the server does not support."""
        endpoint = (
            self._client.responses
            if self._choice.api == "responses"
            else self._client.chat.completions
        )
        while True:
            sent = self._supported(request)
            extra = {name: sent.pop(name) for name in ("return_progress",) if name in sent}
            try:
                return await clock.wait(
                    endpoint.with_raw_response.create(**sent, extra_body=extra or None)
                )
            except openai.APIStatusError as exc:
                unknown = _unsupported_setting(exc, {**sent, **extra})
                if unknown is None:
                    raise
                self._unsupported.add(unknown)
                log.info(
                    "model_setting_left_out", extra={"provider": self.name, "setting": unknown}
                )

    def _supported(self, request: dict[str, Any]) -> dict[str, Any]:
        sent = {name: value for name, value in request.items() if name not in self._unsupported}
        limit = request.get("max_tokens") or request.get("max_completion_tokens")
        other = {"max_tokens", "max_completion_tokens"} - self._unsupported - set(request)
        if limit and len(other) == 1 and not sent.keys() & {"max_tokens", "max_completion_tokens"}:
            # The parameter has two names; some servers support only one of them.
            sent[other.pop()] = limit
        return sent


def _unsupported_setting(exc: openai.APIStatusError, sent: dict[str, Any]) -> str | None:
    """Returns the optional parameter that a refusal is about, or None."""
    if (
        exc.status_code not in (400, 422)
        or too_long(exc.message)
        or not _UNSUPPORTED.search(exc.message)
    ):
        return None
    named = [name for name in _OPTIONAL if name in sent and name in exc.message]
    if exc.param in sent and exc.param in _OPTIONAL:
        return exc.param
    return named[0] if named else None


def _window(entries: list[dict[str, Any]], model: str) -> int | None:
    named = [
        entry
        for entry in entries
        if model in (entry.get("id"), entry.get("name"), entry.get("model"))
    ]
    for entry in named or (entries if len(entries) == 1 else []):
        for name in _WINDOW_FIELDS:
            value = entry.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 256:
                return value
    return None
