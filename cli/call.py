"""The command `call`: a simulated telephone call with an agent, against this machine or a running service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from cli import render
from cli.agent_display import problem_text
from cli.call_display import show_call, show_checked, show_side_by_side
from cli.call_replay import caller_script, quiet_document, recorded_answers
from cli.call_service import call_service
from cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    Common,
    TokenFileOption,
    UrlOption,
    command,
    fail,
    run,
    run_coroutine,
    service_of,
)
from graphrag.agents.loading import read_document
from graphrag.app.voice_services import calls_of
from graphrag.app.wiring import Services
from graphrag.client.errors import ServiceError
from graphrag.client.rest import NodiusClient
from graphrag.config import Settings
from graphrag.errors import CODES
from graphrag.voice.call_tools import RecordedAnswers
from graphrag.voice.simulation.call_script import CallScript, InvalidScript, read_script, said_script
from graphrag.voice.simulation.fast_loop import run_fast
from graphrag.voice.simulation.phone_simulator import LineRefused
from graphrag.voice.simulation.script_player import sounds_of
from graphrag.voice.simulation.simulated_call import SimulatedCall, TalkLine, simulate
from graphrag.voice.simulation.speech import UnreadableWav, speech
from graphrag.voice.simulation.twilio_line import WebhookFailed
from tools.http.problems import DocumentProblem

SPEED = 20.0
"""Of a call that nobody listens to."""


@command()
def call(
    common: Common,
    agent_id: Annotated[str, typer.Argument(metavar="ID", help="An agent that answers by voice.")],
    script: Annotated[
        str | None,
        typer.Option("--simulate", metavar="SCRIPT", help="File, or one of ours: question, proposal, order."),
    ] = None,
    say: Annotated[
        list[str] | None, typer.Option("--say", metavar="TEXT", help="What the caller says; repeatable.")
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option("--replay", metavar="CALL", help="Say again what a stored call's caller said."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Let the model of the settings answer; it costs money.")
    ] = False,
    barge_in_at: Annotated[
        float | None,
        typer.Option(
            "--barge-in-at", metavar="S", min=0, help="Interrupt the first answer with the second text."
        ),
    ] = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE.wav", help="Both directions as stereo sound.")
    ] = None,
    send: Annotated[
        bool, typer.Option("--send", help="Of a replay: run the tools, too, in place of what is recorded.")
    ] = False,
    document: Annotated[
        Path | None, typer.Option("--document", metavar="FILE", help="This answers, not the stored document.")
    ] = None,
) -> None:
    """Call an agent without a telephone, and print what was said.

    Ends with 1 where what the script expects does not hold, with 3 where there is no such agent.
    """
    if (script is not None) + bool(say) + (replay is not None) != 1:
        fail("write one of --simulate SCRIPT, --say TEXT and --replay CALL", code=EXIT_USAGE)
    if url is not None and (live or document is not None or replay is not None):
        fail(
            "--url calls a service as it is: --live, --document and --replay are for this machine",
            code=EXIT_USAGE,
        )
    settings = common.settings()
    recorded = None if replay is None else run(settings, partial(_stored_call, call_id=replay))
    beside = None if script is None else Path(script).parent
    if recorded is not None:
        played = _replayed(recorded)
    elif script is not None:
        played = _script(script)
    else:
        played = said_script(say or (), barge_in_at_s=barge_in_at, language=settings.language)
    if url is not None:
        work = _elsewhere(settings, agent_id, played, beside, *service_of(settings, url, token_file))
    else:
        given = None if document is None else _document(document)
        answers = None
        if recorded is not None and not send:
            given = quiet_document(given or run(settings, partial(_stored_document, agent_id=agent_id)))
            answers = recorded_answers(recorded, given)
        heard = record is not None
        work = _here(settings, agent_id, played, beside, given, answers, is_live=live, is_heard=heard)
    in_real_time = live or url is not None
    made = run_coroutine(
        _explained(work),
        settings.language,
        runs=asyncio.run if in_real_time else partial(run_fast, speed=SPEED),
    )
    if record is not None:
        record.write_bytes(made.recording.wav())
    _show(common, made, recorded)
    if not made.holds:
        raise typer.Exit(EXIT_FAILED)


async def _here(
    settings: Settings,
    agent_id: str,
    script: CallScript,
    beside: Path | None,
    document: dict[str, Any] | None,
    recorded: RecordedAnswers | None,
    *,
    is_live: bool,
    is_heard: bool,
) -> SimulatedCall:
    sounds = await sounds_of(script, speech(), beside)
    async with call_service(
        settings, agent_id, script, document=document, recorded=recorded, is_live=is_live, speaks=is_heard
    ) as service:
        return await simulate(script, sounds, service.client, service.line)


async def _elsewhere(
    settings: Settings,
    agent_id: str,
    script: CallScript,
    beside: Path | None,
    address: str,
    token: str | None,
) -> SimulatedCall:
    sounds = await sounds_of(script, speech(), beside)
    async with NodiusClient(address, token=token, workspace=settings.workspace) as client:
        await client.get("agents", agent_id)
        return await simulate(script, sounds, client, TalkLine(client, address, agent_id, script.caller))


async def _explained(work: Any) -> SimulatedCall:
    """Return what `work` returns; end the program for what a person can do something about."""
    try:
        return await work
    except ServiceError as exc:
        known = CODES.get(exc.code)
        fail(exc.reason, code=known.exit_code if known else EXIT_FAILED, details=_details(exc.details))
    except (LineRefused, WebhookFailed) as exc:
        fail(str(exc))
    except (OSError, UnreadableWav) as exc:
        fail(f"a sound of the script cannot be played: {exc}", code=EXIT_USAGE)


def _details(details: Any) -> str:
    return "" if details is None else str(details)[:2000]


async def _stored_document(services: Services, *, agent_id: str) -> dict[str, Any]:
    return (await services.agents.document(agent_id)).document


async def _stored_call(services: Services, *, call_id: str) -> dict[str, Any]:
    return await calls_of(services).document(call_id, services.local_person())


def _replayed(recorded: dict[str, Any]) -> CallScript:
    script = caller_script(recorded)
    if not script.lines:
        fail(f"nobody said anything in call {recorded['callId']}, or it was forgotten")
    return script


def _script(named: str) -> CallScript:
    """Return a script by its file or its name. Ends the program with all that is wrong with it."""
    file = Path(named)
    ours = files("mock_data").joinpath("calls", f"{named}.yaml")
    try:
        raw = ours.read_bytes() if not file.exists() and ours.is_file() else file.read_bytes()
        return read_script(named, raw)
    except OSError as exc:
        fail(f"cannot read {named}: {exc.strerror}", code=EXIT_USAGE)
    except InvalidScript as exc:
        _refuse(named, exc.problems)


def _refuse(named: str, problems: Sequence[DocumentProblem]) -> NoReturn:
    for problem in problems:
        render.fault(f"{named}: error: {problem_text(problem)}")
    raise typer.Exit(EXIT_USAGE)


def _document(file: Path) -> dict[str, Any]:
    try:
        read = read_document(file.read_bytes())
    except OSError as exc:
        fail(f"cannot read {file}: {exc.strerror}", code=EXIT_USAGE)
    if read.document is None:
        _refuse(str(file), read.problems)
    return read.document


def _show(common: Common, made: SimulatedCall, recorded: dict[str, Any] | None) -> None:
    if common.as_json:
        render.json({**made.to_document(), **({} if recorded is None else {"recorded": recorded})})
        return
    if made.document and recorded is not None:
        show_side_by_side(recorded, made.document)
    elif made.document:
        show_call(made.document)
    if made.first.said:
        render.line(f"the telephone service says: {made.first.said}")
    show_checked(made.checked)
