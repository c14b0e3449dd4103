"""The command `call`: makes a simulated telephone call to an agent, on this machine or of a running
service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cli import render
from cli.agents import show_problems
from cli.call_display import show_call, show_checked, show_side_by_side
from cli.command import command
from cli.common import EXIT_FAILED, EXIT_USAGE, exit_codes, fail, run, usage_error
from cli.inputs import bytes_of, service_of, write_file
from cli.options import (
    Common,
    OptionGroup,
    TokenFileOption,
    UrlOption,
    argument,
    flag,
    option,
)
from cli.output import Output
from cli.serve import served_here
from graphrag.agents.loading import read_document
from graphrag.app.call_replay import (
    CannotReplay,
    caller_script,
    quiet_document,
    recorded_answers,
)
from graphrag.app.simulated_calls import LocalAnswers, ScriptedCall, call_here, call_service
from graphrag.app.voice_services import calls_of
from graphrag.client.errors import ServiceError
from graphrag.config import Settings
from graphrag.errors import CODES
from graphrag.simulator.call_script import CallScript, InvalidScript, read_script, said_script
from graphrag.simulator.fast_loop import run_fast
from graphrag.simulator.simulated_call import SimulatedCall
from graphrag.simulator.speech import UnreadableWav
from graphrag.simulator.twilio_line import LineRefused
from graphrag.voice.call_records import call_document
from graphrag.voice.dependencies import RecordedAnswers

T = TypeVar("T")

SPEED = 20.0  # of a call that needs no real time
MAX_DETAILS_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions(OptionGroup):
    """What the caller says, which agent answers, and where."""

    script: Annotated[
        str | None,
        option("--simulate", "SCRIPT", "A file, or a delivered script: question, proposal, order."),
    ] = None
    say: Annotated[
        list[str] | None, option("--say", "TEXT", "What the caller says; may be repeated.")
    ] = None
    replay: Annotated[
        str | None, option("--replay", "CALL", "Repeat what the caller of a stored call said.")
    ] = None
    live: Annotated[
        bool, flag("--live", "Let the model of the settings answer; it costs money.")
    ] = False
    barge_in_at: Annotated[
        float | None,
        option("--barge-in-at", "S", "Interrupt the first answer with the second text.", min=0),
    ] = None
    url: UrlOption = None
    token_file: TokenFileOption = None
    record: Annotated[
        Path | None, option("--record", "FILE.wav", "Write both directions as stereo sound.")
    ] = None
    send: Annotated[
        bool, flag("--send", "In a replay, run the tools instead of using recorded results.")
    ] = False
    document: Annotated[
        Path | None, option("--document", "FILE", "Use this document, not the stored one.")
    ] = None

    only_check: Annotated[
        bool, flag("--check", "Check the script of --simulate, and make no call.")
    ] = False

    def check(self) -> None:
        """Ends the program for options that exclude each other."""
        if (self.script is not None) + bool(self.say) + (self.replay is not None) != 1:
            usage_error("write one of --simulate SCRIPT, --say TEXT and --replay CALL")
        if self.only_check and self.script is None:
            usage_error("--check needs --simulate SCRIPT: the script to check")
        if self.url is not None and (
            self.live or self.document is not None or self.replay is not None
        ):
            usage_error(
                "--url calls a service as it is: --live, --document and --replay are for this machine"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallPlan:
    """A call to make: its script, and for this machine its document, the recorded results of tools,
    and the stored call that it repeats.
    """

    script: CallScript
    document: dict[str, Any] | None = None
    recorded: RecordedAnswers | None = None
    repeats: dict[str, Any] | None = None


@command()
def call(
    common: Common,
    agent_id: Annotated[str, argument("ID", "An agent that answers by voice.")],
    options: CallOptions,
) -> Output:
    """Call an agent without a telephone, and print the transcript.

    Ends with 1 if an expectation of the script does not hold, with 3 if there is no such agent.
    """
    options.check()
    if options.only_check:
        return _checked_script(str(options.script))
    settings = common.settings()
    plan = _plan(settings, agent_id, options)
    folder = None if options.script is None else Path(options.script).parent
    scripted = ScriptedCall(agent_id=agent_id, script=plan.script, folder=folder)
    if options.url is not None:
        address, token = service_of(settings, options.url, options.token_file)
        calling = call_service(scripted, address, token=token, workspace=settings.workspace)
    else:
        answers = LocalAnswers(
            document=plan.document,
            recorded=plan.recorded,
            is_live=options.live,
        )
        calling = call_here(settings, scripted, answers, served_here)
    in_real_time = options.live or options.url is not None
    calling = explained(calling)
    with exit_codes(settings.language):
        simulated = asyncio.run(calling) if in_real_time else run_fast(calling, speed=SPEED)
    if options.record is not None and not simulated.recording.agent and simulated.document:
        fail("there is no sound to record: with voice.engine text only words pass")
    if options.record is not None:
        write_file(options.record, simulated.recording.wav())
    repeated = {} if plan.repeats is None else {"recorded": plan.repeats}
    return Output(
        document={**simulated.to_document(), **repeated},
        text=partial(_show, simulated, plan.repeats),
        exit_code=0 if simulated.holds else EXIT_FAILED,
    )


def _plan(settings: Settings, agent_id: str, options: CallOptions) -> _CallPlan:
    document = None if options.document is None else agent_document(options.document)
    if options.replay is not None:
        return _replayed(settings, agent_id, options.replay, document, send=options.send)
    if options.script is not None:
        return _CallPlan(script=_script(options.script), document=document)
    script = said_script(
        options.say or (), barge_in_at_s=options.barge_in_at, language=settings.language
    )
    return _CallPlan(script=script, document=document)


def _replayed(
    settings: Settings, agent_id: str, call_id: str, document: dict[str, Any] | None, *, send: bool
) -> _CallPlan:
    """Returns the plan that repeats a stored call. Its requests are sent again only with `send`."""
    stored, thread = run(settings, lambda on: calls_of(on).conversation(call_id, on.local_person()))
    whole = call_document(stored, thread)
    try:
        script = caller_script(whole)
        if send:
            return _CallPlan(script=script, document=document, repeats=whole)
        answering = document or run(settings, lambda on: on.agents.document(agent_id)).document
        quiet = quiet_document(answering, call_id, thread.agent if thread else None)
    except CannotReplay as exc:
        fail(str(exc))
    recorded = recorded_answers(whole, quiet)
    return _CallPlan(script=script, document=quiet, recorded=recorded, repeats=whole)


async def explained(calling: Coroutine[Any, Any, T]) -> T:
    """Returns the result of a call. Ends the program for errors that a person can repair."""
    try:
        return await calling
    except ServiceError as exc:
        meaning = CODES.get(exc.code)
        fail(
            exc.reason,
            code=meaning.exit_code if meaning else EXIT_FAILED,
            details=str(exc.details or "")[:MAX_DETAILS_CHARS],
        )
    except LineRefused as exc:
        fail(str(exc))
    except (OSError, UnreadableWav) as exc:
        usage_error(f"a sound of the script cannot be played: {exc}")


def _checked_script(named: str) -> Output:
    """Returns the facts of a valid script. Ends the program with all its problems."""
    script = _script(named)
    facts = {
        "script": named,
        "name": script.name,
        "steps": len(script.steps),
        "says": len(script.lines),
        "replies": sum(len(step.replies) for step in script.steps),
        "expectations": sum(step.expect is not None for step in script.steps),
    }
    counts = ", ".join(f"{facts[name]} {name}" for name in list(facts)[2:])
    return Output(document=facts, text=f"{named}: the script can be played: {counts}")


def _script(named: str) -> CallScript:
    """Returns a script by its file or its name. Ends the program with all its problems."""
    file = Path(named)
    delivered = files("mock_data").joinpath("calls", f"{named}.yaml")
    is_delivered = not file.exists() and delivered.is_file()
    try:
        return read_script(named, delivered.read_bytes() if is_delivered else bytes_of(file))
    except InvalidScript as exc:
        show_problems(named, exc.problems)
        raise typer.Exit(EXIT_USAGE) from None


def agent_document(file: Path) -> dict[str, Any]:
    """Returns the document in a file. Ends the program if it cannot be read."""
    read = read_document(bytes_of(file))
    if read.document is None:
        show_problems(str(file), read.problems)
        raise typer.Exit(EXIT_USAGE)
    return read.document


def _show(simulated: SimulatedCall, repeats: Mapping[str, Any] | None) -> None:
    if simulated.document and repeats is not None:
        show_side_by_side(repeats, simulated.document)
    elif simulated.document:
        show_call(simulated.document)
    if simulated.spoken:
        render.line(f"the telephone service says: {simulated.spoken}")
    show_checked(simulated.checked)
