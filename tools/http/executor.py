"""Runs an HTTP tool: its steps, its request, what is stored and what the model gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tools.http.compiled import CompiledRequest, CompiledTool
from tools.http.fetch import HttpAnswer, HttpClient, PreparedRequest
from tools.http.scope import ConversationValues
from tools.http.secret_values import Secrets


class Sentence(Protocol):
    """Returns the sentence of an error in a language; graphrag's catalogue is passed in as this."""

    def __call__(self, code: str, language: str, fact: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What a tool gave. `value` is for the model; `stored` and `flags` were set in ctx.

    `status`: of the last answer. `code`: why it is no success.
    """

    value: Any
    ok: bool
    status: int | None = None
    code: str | None = None
    stored: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    ms: int = 0


class HttpExecutor:
    """Runs the tools and the other requests of one agent. `clock`: milliseconds since 1970."""

    def __init__(
        self,
        client: HttpClient,
        secrets: Secrets,
        clock: Callable[[], int],
        sentence: Sentence,
    ) -> None:
        self._client, self._secrets, self._clock, self._sentence = client, secrets, clock, sentence

    async def run(
        self, tool: CompiledTool, args: Mapping[str, Any], values: ConversationValues, call_id: str
    ) -> ToolOutcome:
        """Return what a tool gave; sets what it stores, and its flags, in `values.ctx`. Never raises."""
        raise NotImplementedError

    async def request(
        self,
        request: CompiledRequest,
        values: ConversationValues,
        key: str,
        *,
        timeout_s: float | None = None,
        retries: int = 1,
    ) -> HttpAnswer:
        """Return the answer to a request outside of a tool. Raises: RequestFailed."""
        raise NotImplementedError

    def dry(
        self, tool: CompiledTool, args: Mapping[str, Any], values: ConversationValues
    ) -> list[PreparedRequest]:
        """Return the requests as they would be sent, secrets masked; what steps extract is null.

        Raises: RequestFailed.
        """
        raise NotImplementedError
