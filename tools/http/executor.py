"""Runs an HTTP tool: its steps, its request, what is stored and what the model gets."""

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
    """Size of all stored values of a conversation: they are written after each step."""
    id_chars: int = 150
    detail_chars: int = 500
    text_chars: int = 4_000
    header_chars: int = 8_000
    url_chars: int = 8_000
    request_s: float = 10.0
    """Timeout of a request that names none."""


REQUEST_LIMITS: Final = RequestLimits()

_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class Sentence(Protocol):
    """Returns the sentence of an error in a language; graphrag's catalogue is passed in as this."""

    def __call__(self, code: str, language: str, fact: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutcome:
    """What a tool gave. `value` is for the model; `stored` and `flags` were set in ctx.

    `status`: of the last answer. `code`: why it is no success; None where a step stopped the tool.
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
    """One call of a tool: its arguments, what its steps extracted, its last answer.

    `visits`: what its paths may look at, within the time of the tool.
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
        """Return what an API knows the request by; a server may take no long one."""
        call_id = quote(self.call_id, safe=":")
        if len(call_id) > REQUEST_LIMITS.id_chars:
            call_id = hashlib.sha256(call_id.encode()).hexdigest()
        return f"{self.values.call_id}:{call_id}:{step}"


OnTool = Callable[[str, str, float, bool], None]
"""Called with agent, tool, seconds and success of each run; may not raise."""


class HttpExecutor:
    """Runs the tools and the other requests of one agent. `clock`: milliseconds since 1970."""

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
        """Close its connections."""
        await self._client.aclose()

    async def run(
        self, tool: CompiledTool, args: Mapping[str, Any], values: ConversationValues, call_id: str
    ) -> ToolOutcome:
        """Return what a tool gave; sets what it stores, and its flags, in `values.ctx`."""
        begun = time.perf_counter()
        visits = Visits(time.monotonic() + tool.timeout_s)
        run = _ToolRun(
            tool=tool, args=args, values=values, call_id=call_id, clock=self._clock, visits=visits
        )
        try:
            async with asyncio.timeout(tool.timeout_s):
                outcome = await self._requested(run)
            # What was carried out counts, also where there is no time left to look
            # through the answer.
            if outcome is None:
                outcome = await self._accepted(run)
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
        """Return the answer to a request outside of a tool, whatever its
        status. Raises: RequestFailed.
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
        """Return the requests as they would be sent, secrets masked; what steps extract is null.

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

    async def _requested(self, run: _ToolRun) -> ToolOutcome | None:
        """Run the steps, then the request; return what a step that stops the tool
        gives, else None.
        """
        for place, step in enumerate(run.tool.model.pre_steps, 1):
            stopped = await self._step(run, step, str(place))
            if stopped is not None:
                return stopped
        run.answer = await self._sent(self._main(run))
        return None

    async def _accepted(self, run: _ToolRun) -> ToolOutcome:
        """Take in the answer of a tool, beside the event loop. Raises: RequestFailed."""
        seen = replace(run, values=replace(run.values, ctx=dict(run.values.ctx)))
        outcome = await asyncio.to_thread(self._looked_through, seen)
        names = (*outcome.stored, *outcome.flags)
        run.values.ctx.update({name: seen.values.ctx[name] for name in names})
        return outcome

    def _looked_through(self, run: _ToolRun) -> ToolOutcome:
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
            if run.tool.effect == "read":  # values that are not known are not none
                raise _not_looked_through(run)
        return ToolOutcome(value=value, ok=True, status=answer.status, stored=stored, flags=flags)

    async def _step(self, run: _ToolRun, step: PreStep, place: str) -> ToolOutcome | None:
        """Return what a step that stops the tool gives the model.
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
        seen = replace(run, pre=dict(run.pre))
        outcome = await asyncio.to_thread(_step_looked_through, seen, step)
        run.pre.update(seen.pre)
        return outcome

    def _main(self, run: _ToolRun, *, dry: bool = False) -> PreparedRequest:
        """Return the request of a tool, its body built. Raises: RequestFailed, TemplateFailed."""
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
        """Return a request of a tool as it is sent. Raises: RequestFailed, TemplateFailed."""
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
        """Return a request as it is sent. Raises: RequestFailed, TemplateFailed."""
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
        """Return the answer, masked before anything reads it. Raises: RequestFailed."""
        answer = await self._client.send(request)
        value = self.secrets.mask_value(answer.value)
        return replace(
            answer, value={"text": value[: REQUEST_LIMITS.text_chars]} if answer.is_text else value
        )

    def _failed(self, run: _ToolRun, failed: RequestFailed) -> ToolOutcome:
        """Return what the model gets of a tool that failed: its own words, else
        the standard error.
        """
        error = self._sentence(failed.code, run.values.language, failed.fact)
        answer = run.answer
        standard: dict[str, Any] = {"success": False, "error": error}
        if answer is not None and answer.value is not None and not answer.is_text:
            standard["detail"] = compact(answer.value)[: REQUEST_LIMITS.detail_chars]
        value = self._returned(run, run.tool.model.on_error, standard, error)
        status = None if answer is None else answer.status
        return ToolOutcome(value=value, ok=False, status=status, code=failed.code)

    def _returned(
        self, run: _ToolRun, said: Returned | None, default: Any, error: str | None = None
    ) -> Any:
        """Return what a document says; `default` where it says nothing, or nothing that
        can be rendered.

        An act that succeeded is never reported as failed because of the words for it.
        """
        if said is None or said.return_ is None:
            return default
        try:
            return said.return_.render(run.scope(error))
        except TemplateFailed:
            log.warning("return_not_rendered", extra={"tool": run.tool.name})
            return default


def _step_looked_through(run: _ToolRun, step: PreStep) -> ToolOutcome | None:
    """Take what a step extracts out of its answer; return what it gives where it stops the tool."""
    response = None if run.answer is None else run.answer.value
    for name, path in step.extract.items():
        run.pre[name] = path.first(response, run.scope())
        if run.visits.are_spent:
            raise _not_looked_through(run)
    return None if step.fail_if is None else _stopped_by(step.fail_if, step, run)


def _not_looked_through(run: _ToolRun) -> RequestFailed:
    """Returns the failure of a call whose paths ask for more than may be looked at, or had
    no more time.
    """
    if time.monotonic() >= run.visits.until:
        return RequestFailed("timed_out", fact=f"{run.tool.timeout_s:g}", sent=True)
    return RequestFailed("too_large", sent=True)


def _stopped_by(condition: Expression, step: PreStep, run: _ToolRun) -> ToolOutcome | None:
    """Return what the model gets where a condition of a step holds. Raises: TemplateFailed."""
    if not condition.holds(run.scope()):
        return None
    status = None if run.answer is None else run.answer.status
    return ToolOutcome(value=step.fail_return.render(run.scope()), ok=False, status=status)


def store_matches(
    ctx: dict[str, Any], store: Mapping[str, Path], response: Any, scope: Scope
) -> tuple[str, ...]:
    """Put the first match of each path into ctx, null without one; return the names.

    A value that is too large, or that ctx has no room for, is left out.
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
    """Return the error for the model: it names a value, and never says what it holds."""
    if failed.code == "missing_value":
        return RequestFailed("missing_value", fact=failed.path)
    return RequestFailed("template_error")


def _target(url: RequestUrl, params: ValueTree, scope: Scope) -> str:
    """Return the path and query of a request, without its literal
    beginning. Raises: TemplateFailed.
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
    """Return the parameters of an address; a list repeats its name."""
    pairs: list[tuple[str, str]] = []
    for name, value in cast(dict[str, Any], params or {}).items():
        values = cast(list[Any], value) if isinstance(value, list) else [value]
        pairs += [(name, as_text(one)) for one in values if one is not None]
    return urlencode(pairs, quote_via=quote, safe="")


def _json_bytes(body: Any) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError):
        raise TemplateFailed("template_error", "the body is no JSON") from None
