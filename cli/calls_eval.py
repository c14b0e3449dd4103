"""The command `calls eval`: replays stored calls against a changed document and compares."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cli import render
from cli.call import SPEED, agent_document, explained
from cli.common import EXIT_FAILED, exit_codes, run, usage_error
from cli.options import OptionGroup, WithModel, flag, option, span_ms
from cli.output import Output, nothing
from cli.serve import served_here
from graphrag.agent.thread_store import Thread
from graphrag.app.call_comparison import CallComparison, ReplayReport, compare_calls
from graphrag.app.call_replay import (
    CannotReplay,
    caller_script,
    quiet_document,
    recorded_answers,
)
from graphrag.app.models import open_model
from graphrag.app.simulated_calls import LocalAnswers, ScriptedCall, call_here
from graphrag.app.voice_services import calls_of
from graphrag.app.wiring import Services
from graphrag.config import Settings
from graphrag.leases import now_ms
from graphrag.llm.registry import OFFLINE
from graphrag.simulator.fast_loop import run_fast
from graphrag.simulator.simulated_call import SimulatedCall
from graphrag.simulator.speech import brief_speech
from graphrag.voice.call_records import Call, call_document

WAIT_S = 8.0  # for an answer of the double, which comes at once or never
MODEL_WAIT_S = 60.0  # for an answer of a model
MAX_CALLS = 1_000
MAX_PRINTED = 20  # calls that are worse


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions(OptionGroup):
    """Which calls are replayed, against which document, and what counts as worse."""

    document: Annotated[Path, option("--document", "FILE", "The changed document of an agent.")]
    agent: Annotated[
        str | None,
        option("--agent", "ID", "Replay the calls of this agent (default: the document's id)."),
    ] = None
    since: Annotated[str, option("--since", "SPAN", "Calls begun since then: 12h, 7d.")] = "7d"
    limit: Annotated[
        int, option("--limit", "N", "Maximum number of calls.", min=1, max=MAX_CALLS)
    ] = 100
    min_words: Annotated[
        float,
        option("--min-words", "SHARE", "A lower share of words in common is worse.", min=0, max=1),
    ] = 0.5
    allow: Annotated[
        float,
        option("--allow", "PERCENT", "Share of worse calls that is accepted.", min=0, max=100),
    ] = 0
    live: Annotated[
        bool,
        flag("--live", "Let the settings' text model answer, not the record; it costs money."),
    ] = False


Stored = tuple[Call, Thread | None]


def evaluate_calls(common: WithModel, options: ReplayOptions) -> Output:
    """Replay stored calls against a changed document; compare outcome, tools, sources and words.

    No request leaves this machine, except to the model with --live, and nothing is stored. Ends
    with 1 if more calls are worse than --allow says.
    """
    settings = common.settings()
    document = agent_document(options.document)
    agent_id = options.agent or str(document.get("agent", {}).get("id", ""))
    since = now_ms() - span_ms(options.since)
    stored, more = run(settings, partial(_stored, agent_id, since, options.limit))
    replaying = partial(_replayed, settings, document, options)
    with exit_codes(settings.language):
        report = _report(stored, replaying, more=more, quiet=common.as_json)
    about = {"agentId": agent_id, "since": since, "document": str(options.document)}
    result = {**about, **report.to_document()}
    if not stored:
        return nothing(result, f"no call of {agent_id} has ended since then")
    return Output(
        document=result,
        text=partial(_show, report),
        exit_code=EXIT_FAILED if report.worse_percent > options.allow else 0,
    )


async def _stored(
    agent_id: str, since: int, limit: int, services: Services
) -> tuple[list[Stored], bool]:
    """Returns the ended calls of an agent, newest first, and whether there are more."""
    service = calls_of(services)
    person = services.local_person()
    listed, cursor = await service.listed(person).list(
        agent_id=agent_id, status="ended", since=since, limit=limit
    )
    found = [await service.conversation(call.call_id, person) for call in listed]
    return found, cursor is not None


def _report(
    stored: Sequence[Stored],
    replay: Callable[[Call, Thread | None], CallComparison],
    *,
    more: bool,
    quiet: bool,
) -> ReplayReport:
    """Replays calls one after another, with a progress bar."""
    compared: list[CallComparison] = []
    left_out: dict[str, str] = {}
    with render.progress("replaying calls", quiet=quiet) as update:
        for number, (call, thread) in enumerate(stored):
            update(number, len(stored))
            try:
                compared.append(replay(call, thread))
            except CannotReplay as exc:
                left_out[exc.call_id] = exc.reason
    return ReplayReport(compared=compared, left_out=left_out, more=more)


def _replayed(
    settings: Settings,
    document: dict[str, Any],
    options: ReplayOptions,
    call: Call,
    thread: Thread | None,
) -> CallComparison:
    """Returns the comparison of a call with its replay. Raises: CannotReplay."""
    whole = call_document(call, thread)
    script = caller_script(whole, wait_s=MODEL_WAIT_S if options.live else WAIT_S)
    quiet = quiet_document(document, call.call_id, thread.agent if thread else None)
    voice = brief_speech()
    scripted = ScriptedCall(
        agent_id=str(document["agent"]["id"]),
        script=script.model_copy(update={"caller": call.caller_phone}),
        voice=voice,
    )
    answers = LocalAnswers(
        document=quiet,
        recorded=recorded_answers(whole, quiet),
        voice=voice,
        is_stored=False,
    )
    calling = explained(_called(settings, scripted, answers, is_live=options.live))
    simulated = asyncio.run(calling) if options.live else run_fast(calling, speed=SPEED)
    after = dict(simulated.document) or {"endReason": "error"}
    return compare_calls(whole, after, min_words=options.min_words)


async def _called(
    settings: Settings, scripted: ScriptedCall, answers: LocalAnswers, *, is_live: bool
) -> SimulatedCall:
    """Makes the call of a replay, answered by the settings' text model if it is live."""
    async with AsyncExitStack() as stack:
        if is_live:
            model = await stack.enter_async_context(open_model(settings, embedder=None))
            if model.provider.name == OFFLINE:
                usage_error("--live needs a model: set NODIUS_PROVIDER and its key")
            answers = replace(answers, provider=model.provider)
        return await call_here(settings, scripted, answers, served_here)


def _show(report: ReplayReport) -> None:
    counts = [f"{report.count(verdict)} {verdict}" for verdict in ("same", "changed", "worse")]
    render.line(f"{len(report.compared)} calls replayed: {', '.join(counts)}", "bold")
    rows = [[before or "none", now or "none", count] for before, now, count in report.outcomes()]
    render.table(["outcome before", "now", "calls"], rows, numbers=(2,))
    worse = [one for one in report.compared if one.verdict == "worse"]
    for one in worse[:MAX_PRINTED]:
        render.line(f"{one.call_id}: words {one.words:.2f}", "red")
        for problem in one.problems:
            render.quote("  ", problem)
    if len(worse) > MAX_PRINTED:
        render.note(f"and {len(worse) - MAX_PRINTED} more; --json lists all")
    for call_id, reason in report.left_out.items():
        render.note(f"left out {call_id}: {reason}")
    if report.more:
        render.note("older calls were left out: --limit takes more")
