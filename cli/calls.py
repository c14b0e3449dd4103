"""The commands `calls …`: telephone calls that are stored, and what the APIs of agents are owed."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from cli import render
from cli.call_display import list_row, show_call, show_message
from cli.common import EXIT_FAILED, local_time
from cli.options import Common, LimitOption, argument, command, option
from graphrag.agents.deliveries import DeliveryDocument
from graphrag.app.voice_services import calls_of
from graphrag.app.wiring import Services
from graphrag.voice.call_records import CallStatus

calls = typer.Typer(help="See, follow and forget telephone calls.", no_args_is_help=True)

CallArgument = Annotated[str, argument("ID", "A call's id (see `nodius calls list`).")]
AgentOption = Annotated[str | None, option("--agent", "ID", "With one agent only.")]
SENDING_S = 40.0


@command(calls, "list")
async def list_calls(
    common: Common,
    services: Services,
    agent: AgentOption = None,
    status: Annotated[
        CallStatus | None, option("--status", "WORD", "ringing, active, ending or ended.")
    ] = None,
    outcome: Annotated[str | None, option("--outcome", "WORD", "With one outcome.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List calls, newest first."""
    records = calls_of(services).listed(services.local_person())
    listed, _ = await records.list(agent_id=agent, status=status, outcome=outcome, limit=limit)
    found = [call.to_listed() for call in listed]
    common.show_list(
        {"calls": found},
        ["id", "agent", "channel", "began", "seconds", "state", "outcome"],
        [list_row(call) for call in found],
        none="There is no call yet: `nodius call ID --say TEXT` makes one.",
        numbers=[4],
    )


@command(calls, "show")
async def show(common: Common, services: Services, call_id: CallArgument) -> None:
    """Show a call: what was said and done in it, and how it ended."""
    call = await calls_of(services).document(call_id, services.local_person())
    common.say(call, partial(show_call, call))


@command(calls, "follow")
async def follow(common: Common, services: Services, call_id: CallArgument) -> None:
    """Print what happens in a call, from its beginning on, until it ends; with --json a
    message a line.
    """
    async for message in calls_of(services).follow(call_id, services.local_person()):
        if common.as_json:
            render.json_line(message)
        else:
            show_message(message)


@command(calls, "forget")
async def forget(common: Common, services: Services, call_id: CallArgument) -> None:
    """Remove what is stored of a call: words, values and numbers. Its sums stay."""
    await calls_of(services).forget(call_id, services.local_person())
    common.say({"id": call_id, "forgotten": True}, f"{call_id}: forgotten")


@command(calls, "deliveries")
async def deliveries(
    common: Common,
    services: Services,
    agent: AgentOption = None,
    retry: Annotated[str | None, option("--retry", "ID", "Send this one now.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List what the APIs of agents are owed, or got; with --retry ends with 1 where it
    was not taken.
    """
    owed = services.life.deliveries
    if retry is None:
        listed = await owed.list(agent_id=agent, limit=limit)
    else:
        sent = await owed.retry(retry)
        await owed.wait_until_sent([sent.call_id], timeout_s=SENDING_S)
        listed = [each for each in await owed.list(call_id=sent.call_id) if each.id == retry]
    shown = [DeliveryDocument.model_validate(each) for each in listed]
    found = [each.model_dump(mode="json", by_alias=True) for each in shown]
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
