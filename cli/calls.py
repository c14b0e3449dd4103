"""The commands `calls …`: telephone calls that are stored, and what the APIs of agents are owed."""

from __future__ import annotations

import sys
from typing import Annotated, Any, cast, get_args

import orjson
import typer

from cli import render
from cli.call_display import list_row, show_call, show_message
from cli.common import EXIT_FAILED, EXIT_USAGE, Common, LimitOption, command, fail, local_time
from graphrag.app.voice_services import calls_of
from graphrag.app.wiring import Services
from graphrag.voice.call_records import CallStatus

calls = typer.Typer(help="See, follow and forget telephone calls.", no_args_is_help=True)

CallArgument = Annotated[str, typer.Argument(metavar="ID", help="A call's id (see `nodius calls list`).")]
AgentOption = Annotated[str | None, typer.Option("--agent", metavar="ID", help="With one agent only.")]
SENDING_S = 40.0
STATUSES = get_args(CallStatus)


@command(calls, "list")
def list_calls(
    common: Common,
    agent: AgentOption = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="WORD", help="ringing, active, ending or ended.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", metavar="WORD", help="With one outcome.")
    ] = None,
    limit: LimitOption = 50,
) -> None:
    """List calls, newest first."""
    if status is not None and status not in STATUSES:
        fail(f"--status {status!r}: use one of {', '.join(STATUSES)}", code=EXIT_USAGE)

    async def work(services: Services) -> list[dict[str, Any]]:
        found, _ = (
            await calls_of(services)
            .listed(services.local_person())
            .list(agent_id=agent, status=cast(CallStatus | None, status), outcome=outcome, limit=limit)
        )
        return [call.to_listed() for call in found]

    found = common.run(work)
    common.show_list(
        {"calls": found},
        ["id", "agent", "channel", "began", "seconds", "state", "outcome"],
        [list_row(call) for call in found],
        none="There is no call yet: `nodius call ID --say TEXT` makes one.",
        numbers=[4],
    )


@command(calls, "show")
def show(common: Common, call_id: CallArgument) -> None:
    """Show a call: what was said and done in it, and how it ended."""

    call = common.run(lambda services: calls_of(services).document(call_id, services.local_person()))
    if common.as_json:
        render.json(call)
    else:
        show_call(call)


@command(calls, "follow")
def follow(common: Common, call_id: CallArgument) -> None:
    """Print what happens in a call, from its beginning on, until it ends; with --json a message a line."""

    async def work(services: Services) -> None:
        async for message in calls_of(services).follow(call_id, services.local_person()):
            if common.as_json:
                sys.stdout.write(orjson.dumps(message).decode() + "\n")
                sys.stdout.flush()
            else:
                show_message(message)

    common.run(work)


@command(calls, "forget")
def forget(common: Common, call_id: CallArgument) -> None:
    """Remove what is stored of a call: words, values and numbers. Its sums stay."""

    common.run(lambda services: calls_of(services).forget(call_id, services.local_person()))
    common.say({"id": call_id, "forgotten": True}, f"{call_id}: forgotten")


@command(calls, "deliveries")
def deliveries(
    common: Common,
    agent: AgentOption = None,
    retry: Annotated[str | None, typer.Option("--retry", metavar="ID", help="Send this one now.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List what the APIs of agents are owed, or got; with --retry ends with 1 where it was not taken."""

    async def work(services: Services) -> list[dict[str, Any]]:
        owed = services.life.deliveries
        if retry is None:
            found = await owed.list(agent_id=agent, limit=limit)
        else:
            sent = await owed.retry(retry)
            await owed.wait_until_sent([sent.call_id], timeout_s=SENDING_S)
            found = [each for each in await owed.list(call_id=sent.call_id) if each.id == retry]
        return [
            {"id": each.id, **each.model_dump(mode="json", by_alias=True, exclude={"stored", "owed_time"})}
            for each in found
        ]

    found = common.run(work)
    common.show_list(
        found[0] if retry is not None else {"deliveries": found},
        ["id", "agent", "state", "attempts", "HTTP", "due", "error"],
        [_delivery_row(each) for each in found],
        none="Nothing is owed to anybody's API, and nothing was sent.",
        numbers=[3, 4],
        folded=6,
    )
    if retry is not None and found[0]["status"] != "done":
        raise typer.Exit(EXIT_FAILED)


def _delivery_row(delivery: dict[str, Any]) -> list[Any]:
    due = local_time(delivery["nextTime"], "seconds") if delivery["status"] == "waiting" else ""
    facts = [delivery[name] for name in ("id", "agentId", "status", "attempts")]
    return [*facts, delivery.get("httpStatus"), due, delivery.get("error")]
