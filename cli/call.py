"""The command `call`: a simulated telephone call with an agent, against this machine
or a running service.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import render
from cli.agents import show_problems
from cli.call_display import show_call, show_checked, show_side_by_side
from cli.call_replay import caller_script, quiet_document, recorded_answers
from cli.call_service import call_here
from cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    bytes_of,
    exit_codes,
    fail,
    run,
    service_of,
    usage_error,
)
from cli.options import (
    Common,
    OptionGroup,
    TokenFileOption,
    UrlOption,
    argument,
    command,
    flag,
    option,
)
from graphrag.agents.loading import read_document
from graphrag.app.voice_services import calls_of
from graphrag.client.errors import ServiceError
from graphrag.client.rest import NodiusClient
from graphrag.config import Settings
from graphrag.errors import CODES
from graphrag.simulator.call_script import (
    CallScript,
    InvalidScript,
    read_script,
    said_script,
)
from graphrag.simulator.fast_loop import run_fast
from graphrag.simulator.script_player import sounds_of
from graphrag.simulator.simulated_call import SimulatedCall, simulate, talk
from graphrag.simulator.speech import UnreadableWav, speech
from graphrag.simulator.twilio_line import LineRefused

SPEED = 20.0
"""Of a call that nobody listens to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions(OptionGroup):
    """What is said, who answers, and where."""

    script: Annotated[
        str | None,
        option("--simulate", "SCRIPT", "File, or one of ours: question, proposal, order."),
    ] = None
    say: Annotated[
        list[str] | None, option("--say", "TEXT", "What the caller says; repeatable.")
    ] = None
    replay: Annotated[
        str | None, option("--replay", "CALL", "Say again what a stored call's caller said.")
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
        Path | None, option("--record", "FILE.wav", "Both directions as stereo sound.")
    ] = None
    send: Annotated[
        bool, flag("--send", "Of a replay: run the tools, too, in place of what is recorded.")
    ] = False
    document: Annotated[
        Path | None, option("--document", "FILE", "This answers, not the stored document.")
    ] = None

    def check(self) -> None:
        """Ends the program for options that do not go together."""
        if (self.script is not None) + bool(self.say) + (self.replay is not None) != 1:
            usage_error("write one of --simulate SCRIPT, --say TEXT and --replay CALL")
        if self.url is not None and (
            self.live or self.document is not None or self.replay is not None
        ):
            usage_error(
                "--url calls a service as it is: --live, --document and --replay are for this machine"
            )


@command()
def call(
    common: Common,
    agent_id: Annotated[str, argument("ID", "An agent that answers by voice.")],
    asked: CallOptions,
) -> None:
    """Call an agent without a telephone, and print what was said.

    Ends with 1 where what the script expects does not hold, with 3 where there is no such agent.
    """
    asked.check()
    settings = common.settings()
    document = None if asked.document is None else _document(asked.document)
    recorded = answers = None
    if asked.replay is not None:
        recorded = run(
            settings, lambda on: calls_of(on).document(asked.replay or "", on.local_person())
        )
        played = caller_script(recorded)
        if not played.lines:
            fail(f"nobody said anything in call {recorded['callId']}, or it was forgotten")
        if not asked.send:
            stored = document or run(settings, lambda on: on.agents.document(agent_id)).document
            document = quiet_document(stored)
            answers = recorded_answers(recorded, document)
    elif asked.script is not None:
        played = _script(asked.script)
    else:
        played = said_script(
            asked.say or (), barge_in_at_s=asked.barge_in_at, language=settings.language
        )
    beside = None if asked.script is None else Path(asked.script).parent
    if asked.url is not None:
        place = service_of(settings, asked.url, asked.token_file)
        work = _elsewhere(settings, agent_id, played, beside, *place)
    else:
        facts: Any = {"document": document, "recorded": answers, "is_live": asked.live}
        work = call_here(
            settings, agent_id, played, beside, speaks=asked.record is not None, **facts
        )
    in_real_time = asked.live or asked.url is not None
    work = _explained(work)
    with exit_codes(settings.language):
        made = asyncio.run(work) if in_real_time else run_fast(work, speed=SPEED)
    if asked.record is not None:
        asked.record.write_bytes(made.recording.wav())
    beside_it = {} if recorded is None else {"recorded": recorded}
    common.say({**made.to_document(), **beside_it}, partial(_show, made, recorded))
    if not made.holds:
        raise typer.Exit(EXIT_FAILED)


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
        return await simulate(
            script, sounds, client, await talk(client, address, agent_id, script.caller)
        )


async def _explained(work: Any) -> SimulatedCall:
    """Return what `work` returns; end the program for what a person can do something about."""
    try:
        return await work
    except ServiceError as exc:
        known = CODES.get(exc.code)
        fail(
            exc.reason,
            code=known.exit_code if known else EXIT_FAILED,
            details=str(exc.details or "")[:2000],
        )
    except LineRefused as exc:
        fail(str(exc))
    except (OSError, UnreadableWav) as exc:
        usage_error(f"a sound of the script cannot be played: {exc}")


def _script(named: str) -> CallScript:
    """Return a script by its file or its name. Ends the program with all that is wrong with it."""
    file = Path(named)
    ours = files("mock_data").joinpath("calls", f"{named}.yaml")
    raw = ours.read_bytes() if not file.exists() and ours.is_file() else bytes_of(file)
    try:
        return read_script(named, raw)
    except InvalidScript as exc:
        show_problems(named, exc.problems)
        raise typer.Exit(EXIT_USAGE) from None


def _document(file: Path) -> dict[str, Any]:
    read = read_document(bytes_of(file))
    if read.document is None:
        show_problems(str(file), read.problems)
        raise typer.Exit(EXIT_USAGE)
    return read.document


def _show(made: SimulatedCall, recorded: dict[str, Any] | None) -> None:
    if made.document and recorded is not None:
        show_side_by_side(recorded, made.document)
    elif made.document:
        show_call(made.document)
    if made.spoken:
        render.line(f"the telephone service says: {made.spoken}")
    show_checked(made.checked)
