"""Runs HTTP tools: sends the requests of their steps and their own, and returns the results."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from tools.http.builders import About, BuilderFailed
from tools.http.compiled import CompiledTool
from tools.http.fetch import HttpAnswer, HttpClient, PreparedRequest, RequestFailed
from tools.http.filters import TemplateFailed, compact
from tools.http.model import PreStep, RequestLike
from tools.http.rendered_log import log_request, shown
from tools.http.request_rendering import RequestRenderer, unrendered
from tools.http.scope import ConversationValues, Visits
from tools.http.secret_values import Secrets
from tools.http.tool_run import (
    Exchange,
    ToolOutcome,
    ToolRun,
    evaluate_answer,
    evaluate_step,
    rendered_result,
    stopped_by,
)

log = logging.getLogger(__name__)

MAX_DETAIL_CHARS = 500  # of an error answer in the result
MAX_TEXT_CHARS = 4_000  # of an answer that is not JSON


class Sentence(Protocol):
    """Returns the text of an error in a language. Implemented by the catalogue of graphrag."""

    def __call__(self, code: str, language: str, fact: str) -> str: ...


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
        self._renderer = RequestRenderer(secrets)
        self._on_tool = on_tool
        self._client = client
        self._clock = clock
        self._sentence = sentence

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def run(
        self,
        tool: CompiledTool,
        args: Mapping[str, Any],
        values: ConversationValues,
        call_id: str,
        *,
        exchanges: list[Exchange] | None = None,
    ) -> ToolOutcome:
        """Runs a tool and returns its outcome. Sets stored values and flags in `values.ctx`.

        `exchanges` gets the requests that were sent and their answers, with secrets masked.
        """
        begun = time.perf_counter()
        run = ToolRun(
            tool=tool,
            args=args,
            values=values,
            call_id=call_id,
            clock=self._clock,
            visits=Visits(time.monotonic() + tool.timeout_s),
            exchanges=exchanges,
        )
        outcome = await self._outcome(run)
        outcome = replace(outcome, ms=round((time.perf_counter() - begun) * 1e3))
        self.report(tool.name, compact(args), values, outcome)
        return outcome

    async def _outcome(self, run: ToolRun) -> ToolOutcome:
        timeout_s = run.tool.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                outcome = await self._send_requests(run)
            # Outside of the timeout: an action that was carried out is not reported as failed
            # because no time is left to read its answer.
            return await self._read_answer(run) if outcome is None else outcome
        except TimeoutError:
            return self._failed(run, RequestFailed("timed_out", fact=f"{timeout_s:g}"))
        except RequestFailed as failed:
            return self._failed(run, failed)
        except TemplateFailed as failed:
            return self._failed(run, unrendered(failed))

    def report(
        self, tool: str, arguments: str, values: ConversationValues, outcome: ToolOutcome
    ) -> None:
        """Logs the outcome of a tool of the conversation, also of one that sends no requests, and
        calls the listener. The arguments are logged at level debug, with secrets masked.
        """
        call = _facts(values)
        facts = {"tool": tool, "duration_ms": outcome.ms, "ok": outcome.ok}
        log.info("tool_call", extra={**call, **facts, "status": outcome.status})
        if log.isEnabledFor(logging.DEBUG):
            logged = shown(arguments, self.secrets)
            log.debug("tool_arguments", extra={**call, "tool": tool, "arguments": logged})
        if outcome.flags:
            log.info("flags_set", extra={**call, "flags": list(outcome.flags)})
        if self._on_tool is not None:
            self._on_tool(str(call["agent_id"]), tool, outcome.ms / 1e3, outcome.ok)

    async def request(
        self, request: RequestLike, values: ConversationValues, key: str, *, retries: int = 1
    ) -> HttpAnswer:
        """Sends a request that is not part of a tool. Returns the answer with any status.

        Raises: RequestFailed.
        """
        try:
            prepared = self._renderer.rendered(
                request, values.scope(self._clock()), key=key, retries=retries
            )
        except TemplateFailed as failed:
            raise unrendered(failed) from None
        log_request(prepared.path_text, prepared, self.secrets, _facts(values))
        return await self._sent(prepared)

    def dry(
        self, tool: CompiledTool, args: Mapping[str, Any], values: ConversationValues
    ) -> list[PreparedRequest]:
        """Returns the requests of a tool without sending them.

        Secrets are masked, and the values that steps would extract are null.
        Raises: RequestFailed.
        """
        run = ToolRun(tool=tool, args=args, values=values, call_id="dry", clock=self._clock)
        try:
            steps = [
                self._of_tool(run, step, str(place), dry=True)
                for place, step in enumerate(tool.model.pre_steps, 1)
                if step.url is not None
            ]
            return [*steps, self._main(run, dry=True)]
        except TemplateFailed as failed:
            raise unrendered(failed) from None

    async def _send_requests(self, run: ToolRun) -> ToolOutcome | None:
        """Runs the steps, then sends the tool's request.

        Returns the outcome if a step stops the tool, else None.
        """
        for place, step in enumerate(run.tool.model.pre_steps, 1):
            stopped = await self._step(run, step, str(place))
            if stopped is not None:
                return stopped
        request = self._main(run)
        shown = request if run.exchanges is None else self._main(run, dry=True)
        run.answer = await self._kept(run, request, shown)
        return None

    async def _read_answer(self, run: ToolRun) -> ToolOutcome:
        """Evaluates the answer of a tool in a thread, with a copy of ctx. Raises: RequestFailed."""
        copy = replace(run, values=replace(run.values, ctx=dict(run.values.ctx)))
        outcome = await asyncio.to_thread(evaluate_answer, copy)
        names = (*outcome.stored, *outcome.flags)
        run.values.ctx.update({name: copy.values.ctx[name] for name in names})
        return outcome

    async def _step(self, run: ToolRun, step: PreStep, place: str) -> ToolOutcome | None:
        """Runs a step. Returns the outcome if it stops the tool, else None.

        Raises: RequestFailed, TemplateFailed.
        """
        run.answer = None
        if step.stops_before is not None:
            stopped = await asyncio.to_thread(stopped_by, step.stops_before, step, run)
            if stopped is not None:
                return stopped
        if step.url is not None:
            request = self._of_tool(run, step, place)
            shown = request if run.exchanges is None else self._of_tool(run, step, place, dry=True)
            run.answer = await self._kept(run, request, shown)
            if not run.answer.ok:
                raise RequestFailed("refused_by_server", fact=str(run.answer.status))
        if not step.extract and step.fail_if is None:
            return None
        copy = replace(run, pre=dict(run.pre))
        outcome = await asyncio.to_thread(evaluate_step, copy, step)
        run.pre.update(copy.pre)
        return outcome

    def _main(self, run: ToolRun, *, dry: bool = False) -> PreparedRequest:
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
        run: ToolRun,
        request: RequestLike,
        place: str,
        *,
        body: Any = None,
        dry: bool = False,
    ) -> PreparedRequest:
        """Returns a rendered request of a tool. Raises: RequestFailed, TemplateFailed."""
        prepared = self._renderer.rendered(
            request,
            run.scope(),
            key=run.key(place),
            retries=run.tool.model.retries,
            body=body,
            dry=dry,
        )
        if not dry:
            facts = _facts(run.values) | {"step": place}
            log_request(f"tools.{run.tool.name}", prepared, self.secrets, facts)
        if request.timeout_s is not None:
            return prepared
        return replace(prepared, timeout_s=run.tool.request_timeout_s)

    async def _kept(
        self, run: ToolRun, request: PreparedRequest, shown: PreparedRequest
    ) -> HttpAnswer:
        """Sends a request of a tool, and keeps it as it is `shown` if the run keeps its exchanges.

        Raises: RequestFailed.
        """
        begun = time.perf_counter()
        answer = code = None
        try:
            answer = await self._sent(request)
        except RequestFailed as failed:
            code = failed.code
            raise
        else:
            return answer
        finally:
            if run.exchanges is not None:
                ms = round((time.perf_counter() - begun) * 1e3)
                run.exchanges.append(Exchange(request=shown, ms=ms, answer=answer, code=code))

    async def _sent(self, request: PreparedRequest) -> HttpAnswer:
        """Sends a request. Returns the answer with secrets masked. Raises: RequestFailed."""
        answer = await self._client.send(request)
        value = self.secrets.mask_value(answer.value)
        return replace(answer, value={"text": value[:MAX_TEXT_CHARS]} if answer.is_text else value)

    def _failed(self, run: ToolRun, failed: RequestFailed) -> ToolOutcome:
        """Returns the outcome of a failed tool: its `on_error` result, or else a standard error."""
        error = self._sentence(failed.code, run.values.language, failed.fact)
        answer = run.answer
        standard: dict[str, Any] = {"success": False, "error": error}
        if answer is not None and answer.value is not None and not answer.is_text:
            standard["detail"] = compact(answer.value)[:MAX_DETAIL_CHARS]
        value = rendered_result(run, run.tool.model.on_error, standard, error)
        status = None if answer is None else answer.status
        return ToolOutcome(value=value, ok=False, status=status, code=failed.code)


def _facts(values: ConversationValues) -> dict[str, Any]:
    """Returns the log fields of a conversation."""
    return {"agent_id": values.agent.get("id"), "call_id": values.call_id}
