"""Runs an HTTP tool: sends the requests of its steps and its own, stores values from the answers,
and returns the result for the model.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, cast
from urllib.parse import quote, urlencode

from tools.http.builders import About, BuilderFailed
from tools.http.compiled import CompiledTool, secrets_of
from tools.http.expressions import Expression
from tools.http.fetch import (
    KEPT_IN_URL,
    FailCode,
    HttpAnswer,
    HttpClient,
    PreparedRequest,
    RequestFailed,
)
from tools.http.filters import TemplateFailed, as_text, compact
from tools.http.json_paths import Path
from tools.http.model import PreStep, RequestLike, Returned
from tools.http.request_url import RequestUrl
from tools.http.scope import ConversationValues, Scope, Visits
from tools.http.secret_values import Secrets
from tools.http.value_tree import ValueTree

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Limits of the requests of an agent. Units: bytes, characters, seconds."""

    stored_bytes: int = 64 * 1024
    """Size of one stored value."""
    ctx_bytes: int = 256 * 1024
    """Size of all stored values of a conversation, which are written after each step."""
    id_chars: int = 150
    detail_chars: int = 500
    text_chars: int = 4_000
    header_chars: int = 8_000
    url_chars: int = 8_000
    request_s: float = 10.0
    """Timeout of requests without a timeout of their own."""


REQUEST_LIMITS: Final = RequestLimits()

_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class Sentence(Protocol):
    """Returns the text of an error in a language. Implemented by the catalogue of graphrag."""

    def __call__(self, code: str, language: str, fact: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """The result of a tool. `value` is for the model; `stored` and `flags` are names set in ctx.

    `status`: HTTP status of the last answer. `code`: reason of the failure; None on success and if
    a step stopped the tool.
    """

    value: Any
    ok: bool
    status: int | None = None
    code: FailCode | None = None
    stored: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    ms: int = 0


@dataclass(slots=True, kw_only=True)
class _ToolRun:
    """One call of a tool: its arguments, the values extracted by its steps (`pre`), and the last
    answer.

    `visits`: the number of values that its JSONPaths may still visit, within the tool's timeout.
    """

    tool: CompiledTool
    args: Mapping[str, Any]
    values: ConversationValues
    call_id: str
    clock: Callable[[], int]
    visits: Visits = field(default_factory=Visits)
    pre: dict[str, Any] = field(default_factory=dict[str, Any])
    answer: HttpAnswer | None = None

    def scope(self, error: str | None = None) -> Scope:
        answer = self.answer
        return self.values.scope(
            self.clock(),
            args=self.args,
            pre=self.pre,
            error=error,
            status=None if answer is None else answer.status,
            response=None if answer is None else answer.value,
            visits=self.visits,
        )

    def key(self, step: str) -> str:
        """Returns the idempotency key of a request, shortened because servers limit its length."""
        call_id = quote(self.call_id, safe=":")
        if len(call_id) > REQUEST_LIMITS.id_chars:
            call_id = hashlib.sha256(call_id.encode()).hexdigest()
        return f"{self.values.call_id}:{call_id}:{step}"


OnTool = Callable[[str, str, float, bool], None]
"""Called after each run with agent, tool, seconds and success. Must not raise."""


class HttpExecutor:
    """Runs the tools and other requests of one agent. `clock` returns milliseconds since 1970."""

    def __init__(
        self,
        client: HttpClient,
        secrets: Secrets,
        clock: Callable[[], int],
        sentence: Sentence,
        *,
        on_tool: OnTool | None = None,
    ) -> None:
        self.secrets = secrets
        self._on_tool = on_tool
        self._client = client
        self._clock = clock
        self._sentence = sentence

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def run(
        self, tool: CompiledTool, args: Mapping[str, Any], values: ConversationValues, call_id: str
    ) -> ToolOutcome:
        """Runs a tool and returns its outcome. Sets stored values and flags in `values.ctx`."""
        begun = time.perf_counter()
        visits = Visits(time.monotonic() + tool.timeout_s)
        run = _ToolRun(
            tool=tool, args=args, values=values, call_id=call_id, clock=self._clock, visits=visits
        )
        try:
            async with asyncio.timeout(tool.timeout_s):
                outcome = await self._send_requests(run)
            # Outside of the timeout: an action that was carried out is not reported as failed
            # because no time is left to read its answer.
            if outcome is None:
                outcome = await self._read_answer(run)
        except TimeoutError:
            outcome = self._failed(run, RequestFailed("timed_out", fact=f"{tool.timeout_s:g}"))
        except RequestFailed as failed:
            outcome = self._failed(run, failed)
        except TemplateFailed as failed:
            outcome = self._failed(run, _unrendered(failed))
        outcome = replace(outcome, ms=round((time.perf_counter() - begun) * 1e3))
        facts = {"tool": tool.name, "agent_id": values.agent.get("id")}
        facts |= {"call_id": values.call_id, "duration_ms": outcome.ms, "ok": outcome.ok}
        log.info("tool_call", extra={**facts, "status": outcome.status})
        if outcome.flags:
            flagged = {name: facts[name] for name in ("agent_id", "call_id")}
            log.info("flags_set", extra={**flagged, "flags": list(outcome.flags)})
        if self._on_tool is not None:
            self._on_tool(str(facts["agent_id"]), str(facts["tool"]), outcome.ms / 1e3, outcome.ok)
        return outcome

    async def request(
        self, request: RequestLike, values: ConversationValues, key: str, *, retries: int = 1
    ) -> HttpAnswer:
        """Sends a request that is not part of a tool. Returns the answer with any status.

        Raises: RequestFailed.
        """
        try:
            prepared = self._prepared(
                request, values.scope(self._clock()), key=key, retries=retries
            )
        except TemplateFailed as failed:
            raise _unrendered(failed) from None
        return await self._sent(prepared)

    def dry(
        self, tool: CompiledTool, args: Mapping[str, Any], values: ConversationValues
    ) -> list[PreparedRequest]:
        """Returns the requests of a tool without sending them.

        Secrets are masked, and the values that steps would extract are null.
        Raises: RequestFailed.
        """
        run = _ToolRun(tool=tool, args=args, values=values, call_id="dry", clock=self._clock)
        try:
            steps = [
                self._of_tool(run, step, str(place), dry=True)
                for place, step in enumerate(tool.model.pre_steps, 1)
                if step.url is not None
            ]
            return [*steps, self._main(run, dry=True)]
        except TemplateFailed as failed:
            raise _unrendered(failed) from None

    async def _send_requests(self, run: _ToolRun) -> ToolOutcome | None:
        """Runs the steps, then sends the tool's request.

        Returns the outcome if a step stops the tool, else None.
        """
        for place, step in enumerate(run.tool.model.pre_steps, 1):
            stopped = await self._step(run, step, str(place))
            if stopped is not None:
                return stopped
        run.answer = await self._sent(self._main(run))
        return None

    async def _read_answer(self, run: _ToolRun) -> ToolOutcome:
        """Evaluates the answer of a tool in a thread, with a copy of ctx. Raises: RequestFailed."""
        copy = replace(run, values=replace(run.values, ctx=dict(run.values.ctx)))
        outcome = await asyncio.to_thread(self._evaluate_answer, copy)
        names = (*outcome.stored, *outcome.flags)
        run.values.ctx.update({name: copy.values.ctx[name] for name in names})
        return outcome

    def _evaluate_answer(self, run: _ToolRun) -> ToolOutcome:
        tool = run.tool.model
        answer = run.answer
        assert answer is not None
        if not answer.ok:
            raise RequestFailed("refused_by_server", fact=str(answer.status))
        if tool.success_if is not None and not tool.success_if.holds(run.scope()):
            raise RequestFailed("not_accepted")
        stored = store_matches(run.values.ctx, tool.store_in_ctx, answer.value, run.scope())
        flags = tuple(tool.on_success_flags)
        run.values.ctx.update(dict.fromkeys(flags, True))
        value = self._returned(run, tool.on_success, answer.value)
        if run.visits.are_spent:
            log.warning("answer_not_looked_through", extra={"tool": run.tool.name})
            if run.tool.effect == "read":  # a value that was not reached is not a missing value
                raise _visits_spent(run)
        return ToolOutcome(value=value, ok=True, status=answer.status, stored=stored, flags=flags)

    async def _step(self, run: _ToolRun, step: PreStep, place: str) -> ToolOutcome | None:
        """Runs a step. Returns the outcome if it stops the tool, else None.

        Raises: RequestFailed, TemplateFailed.
        """
        run.answer = None
        if step.stops_before is not None:
            stopped = await asyncio.to_thread(_stopped_by, step.stops_before, step, run)
            if stopped is not None:
                return stopped
        if step.url is not None:
            run.answer = await self._sent(self._of_tool(run, step, place))
            if not run.answer.ok:
                raise RequestFailed("refused_by_server", fact=str(run.answer.status))
        if not step.extract and step.fail_if is None:
            return None
        copy = replace(run, pre=dict(run.pre))
        outcome = await asyncio.to_thread(_evaluate_step, copy, step)
        run.pre.update(copy.pre)
        return outcome

    def _main(self, run: _ToolRun, *, dry: bool = False) -> PreparedRequest:
        """Returns the tool's own request with its body. Raises: RequestFailed, TemplateFailed."""
        run.answer = None
        tool = run.tool
        values = run.values
        body = None
        if tool.builder is not None:
            about = About(
                agent=values.agent,
                caller_phone=values.caller_phone,
                call_id=values.call_id,
                now_ms=self._clock(),
            )
            try:
                body = tool.builder.body(run.args, values.ctx, values.session, about)
            except BuilderFailed as failed:
                raise RequestFailed("builder_failed", fact=str(failed)[:300]) from None
        return self._of_tool(run, tool.model, "0", body=body, dry=dry)

    def _of_tool(
        self,
        run: _ToolRun,
        request: RequestLike,
        place: str,
        *,
        body: Any = None,
        dry: bool = False,
    ) -> PreparedRequest:
        """Returns a rendered request of a tool. Raises: RequestFailed, TemplateFailed."""
        prepared = self._prepared(
            request,
            run.scope(),
            key=run.key(place),
            retries=run.tool.model.retries,
            body=body,
            dry=dry,
        )
        if request.timeout_s is not None:
            return prepared
        return replace(prepared, timeout_s=run.tool.request_timeout_s)

    def _prepared(
        self,
        request: RequestLike,
        scope: Scope,
        *,
        key: str,
        retries: int = 1,
        body: Any = None,
        dry: bool = False,
    ) -> PreparedRequest:
        """Returns a rendered request. Raises: RequestFailed, TemplateFailed."""
        if request.body is not None:
            body = request.body.render(scope, drop_null=True)
        assert request.url is not None
        origin, prefix = request.url.beginning(scope.lookup(("base_url",)))
        target = prefix + _target(request.url, request.params, scope)
        if len(target) > REQUEST_LIMITS.url_chars:
            raise TemplateFailed("template_error", "the address is too long")
        return PreparedRequest(
            method=request.method,
            origin=origin,
            target=target if target.startswith("/") else f"/{target}",
            headers=self._headers(request, scope, dry=dry),
            body=None if body is None else _json_bytes(body),
            timeout_s=request.timeout_s or REQUEST_LIMITS.request_s,
            retries=retries,
            key=key,
            secret_headers=frozenset(
                name for name, text in request.headers.items() if secrets_of(text)
            ),
            path_text=prefix + request.url.path_text,
        )

    def _headers(
        self, request: RequestLike, scope: Scope, *, dry: bool
    ) -> tuple[tuple[str, str], ...]:
        headers: list[tuple[str, str]] = []
        for header, template in request.headers.items():
            named = secrets_of(template)
            secrets = {name: f"[secret {name}]" for name in named}
            if not dry and named:
                secrets = self.secrets.values(named)
                if missing := self.secrets.missing(named):
                    raise RequestFailed("secret_missing", fact=", ".join(missing))
            value = template.render(Scope({**scope.roots, "secret": secrets}))
            text = as_text(value).strip(" ")
            if len(text) > REQUEST_LIMITS.header_chars or _UNSENDABLE.search(text):
                raise TemplateFailed("template_error", f"{header} cannot hold this value")
            if value is not None:
                headers.append((header, text))
        return tuple(headers)

    async def _sent(self, request: PreparedRequest) -> HttpAnswer:
        """Sends a request. Returns the answer with secrets masked. Raises: RequestFailed."""
        answer = await self._client.send(request)
        value = self.secrets.mask_value(answer.value)
        return replace(
            answer, value={"text": value[: REQUEST_LIMITS.text_chars]} if answer.is_text else value
        )

    def _failed(self, run: _ToolRun, failed: RequestFailed) -> ToolOutcome:
        """Returns the outcome of a failed tool: its `on_error` result, or else a standard error."""
        error = self._sentence(failed.code, run.values.language, failed.fact)
        answer = run.answer
        standard: dict[str, Any] = {"success": False, "error": error}
        if answer is not None and answer.value is not None and not answer.is_text:
            standard["detail"] = compact(answer.value)[: REQUEST_LIMITS.detail_chars]
        value = self._returned(run, run.tool.model.on_error, standard, error)
        status = None if answer is None else answer.status
        return ToolOutcome(value=value, ok=False, status=status, code=failed.code)

    def _returned(
        self, run: _ToolRun, returned: Returned | None, default: Any, error: str | None = None
    ) -> Any:
        """Returns the rendered result of a document; `default` if it has none or it cannot be
        rendered.

        A call that succeeded is never reported as failed because its result cannot be rendered.
        """
        if returned is None or returned.return_ is None:
            return default
        try:
            return returned.return_.render(run.scope(error))
        except TemplateFailed:
            log.warning("return_not_rendered", extra={"tool": run.tool.name})
            return default


def _evaluate_step(run: _ToolRun, step: PreStep) -> ToolOutcome | None:
    """Extracts the values of a step from its answer. Returns the outcome if it stops the tool."""
    response = None if run.answer is None else run.answer.value
    for name, path in step.extract.items():
        run.pre[name] = path.first(response, run.scope())
        if run.visits.are_spent:
            raise _visits_spent(run)
    return None if step.fail_if is None else _stopped_by(step.fail_if, step, run)


def _visits_spent(run: _ToolRun) -> RequestFailed:
    """Returns the error for a call whose JSONPaths visited too many values or ran out of time."""
    if time.monotonic() >= run.visits.until:
        return RequestFailed("timed_out", fact=f"{run.tool.timeout_s:g}", sent=True)
    return RequestFailed("too_large", sent=True)


def _stopped_by(condition: Expression, step: PreStep, run: _ToolRun) -> ToolOutcome | None:
    """Returns the outcome if the condition of a step is true, else None. Raises: TemplateFailed."""
    if not condition.holds(run.scope()):
        return None
    status = None if run.answer is None else run.answer.status
    return ToolOutcome(value=step.fail_return.render(run.scope()), ok=False, status=status)


def store_matches(
    ctx: dict[str, Any], store: Mapping[str, Path], response: Any, scope: Scope
) -> tuple[str, ...]:
    """Stores the first match of each path in ctx (None without a match), and returns the names.

    Skips values that are too large, or that would make ctx too large.
    """
    if scope.visits is None:
        scope = Scope(scope.roots, Visits())
    left = REQUEST_LIMITS.ctx_bytes - sum(
        _size(ctx[name]) for name in ctx if store and name != "transcript"
    )
    stored: list[str] = []
    for name, path in store.items():
        value = path.first(response, scope)
        size = _size(value)
        before = _size(ctx[name]) if name in ctx else 0
        if size > REQUEST_LIMITS.stored_bytes or size - before > left:
            log.warning("value_too_large", extra={"value": name})
            continue
        ctx[name] = value
        left -= size - before
        stored.append(name)
    return tuple(stored)


def _size(value: Any) -> int:
    return len(compact(value).encode())


def _unrendered(failed: TemplateFailed) -> RequestFailed:
    """Returns the error for the model. It contains the name of a value, but never the value."""
    if failed.code == "missing_value":
        return RequestFailed("missing_value", fact=failed.path)
    return RequestFailed("template_error")


def _target(url: RequestUrl, params: ValueTree, scope: Scope) -> str:
    """Returns the path and query of a request, without the literal start of the path.

    Raises: TemplateFailed.
    """
    try:
        target = quote(url.rest.render(scope, insert="url"), safe=KEPT_IN_URL)
        query = _query(params.render(scope, drop_null=True))
    except UnicodeEncodeError:
        raise TemplateFailed("template_error", "a value of the address is no valid text") from None
    if query:
        target += f"{'&' if '?' in target else '?'}{query}"
    return target


def _query(params: Any) -> str:
    """Returns the query string. A list repeats its name for each element."""
    pairs: list[tuple[str, str]] = []
    for name, value in cast(dict[str, Any], params or {}).items():
        values = cast(list[Any], value) if isinstance(value, list) else [value]
        pairs += [(name, as_text(element)) for element in values if element is not None]
    return urlencode(pairs, quote_via=quote, safe="")


def _json_bytes(body: Any) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError):
        raise TemplateFailed("template_error", "the body is no JSON") from None
