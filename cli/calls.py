"""The commands `calls …`: stored telephone calls, and deliveries to the APIs of agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer

from cli import render
from cli.call_display import list_row, show_call, show_message
from cli.calls_eval import evaluate_calls
from cli.command import command
from cli.common import EXIT_FAILED, local_time
from cli.options import Common, LimitOption, argument, option, span_ms
from cli.output import Output, listing
from graphrag.agents.deliveries import Delivery, DeliveryDocument
from graphrag.app.voice_services import calls_of
from graphrag.app.wiring import Services
from graphrag.leases import now_ms
from graphrag.roles import Person
from graphrag.voice.call_figures import CallFigures, figures_of, read_ended
from graphrag.voice.call_records import CallStatus

calls = typer.Typer(help="See, follow and erase telephone calls.", no_args_is_help=True)

CallArgument = Annotated[str, argument("ID", "A call's id (see `nodius calls list`).")]
AgentOption = Annotated[str | None, option("--agent", "ID", "Only for this agent.")]
RETRY_WAIT_S = 40.0

command(calls, "eval")(evaluate_calls)


@command(calls, "list")
async def list_calls(
    services: Services,
    person: Person,
    agent: AgentOption = None,
    status: Annotated[
        CallStatus | None,
        option("--status", "WORD", "ringing, active, ending, transferring or ended."),
    ] = None,
    outcome: Annotated[str | None, option("--outcome", "WORD", "Only with this outcome.")] = None,
    limit: LimitOption = 50,
) -> Output:
    """List calls, newest first."""
    records = calls_of(services).listed(person)
    listed, _ = await records.list(agent_id=agent, status=status, outcome=outcome, limit=limit)
    documents = [call.to_listed() for call in listed]
    return listing(
        {"calls": documents},
        ["id", "agent", "channel", "began", "seconds", "state", "outcome"],
        [list_row(document) for document in documents],
        empty="There is no call yet: `nodius call ID --say TEXT` makes one.",
        numbers=[4],
    )


@command(calls, "figures")
async def figures(
    services: Services,
    person: Person,
    agent: AgentOption = None,
    since: Annotated[str, option("--since", "SPAN", "Calls begun since then: 12h, 7d.")] = "30d",
) -> Output:
    """Show outcomes, waits, containment, failures and cost of ended calls, by day (UTC)."""
    begin = now_ms() - span_ms(since)
    records = calls_of(services).listed(person)
    counted, more = await read_ended(records, since=begin, agent_id=agent)
    found = await figures_of(counted, since=begin, more=more)
    rows = [_figures_row(row) for row in (*found.days, found.total)]
    output = listing(
        found.model_dump(mode="json", by_alias=True, exclude_none=True),
        [
            "day",
            "calls",
            "minutes",
            "contained",
            "transferred",
            "failed",
            "p50 ms",
            "p95 ms",
            "USD",
            "outcomes",
            "causes",
        ],
        rows if found.days else [],
        empty="No call has ended since then.",
        numbers=range(1, 9),
        folded=9,
    )
    notes = ["older calls were not counted"] if more else []
    return replace(output, notes=[*output.notes, *notes])


def _figures_row(row: CallFigures) -> list[Any]:
    share = f"{100 * row.contained / row.calls:.0f} %" if row.calls else ""
    waits = row.answer_waits
    return [
        row.day or "total",
        row.calls,
        f"{row.seconds / 60:.1f}",
        share,
        row.transferred,
        row.failed,
        waits.p50,
        waits.p95,
        f"{row.cost_usd:.4f}",
        ", ".join(f"{name} {count}" for name, count in row.outcomes.items()),
        ", ".join(f"{name} {count}" for name, count in row.failures.items()),
    ]


@command(calls, "show")
async def show(services: Services, person: Person, call_id: CallArgument) -> Output:
    """Show a call: its transcript, tools and outcome."""
    call = await calls_of(services).document(call_id, person)
    return Output(document=call, text=partial(show_call, call))


@command(calls, "follow")
async def follow(common: Common, services: Services, person: Person, call_id: CallArgument) -> None:
    """Print the events of a call, from its beginning until it ends; with --json one message per
    line.
    """
    async for message in calls_of(services).follow(call_id, person):
        if common.as_json:
            render.json_line(message)
        else:
            show_message(message)


@command(calls, "forget")
async def forget(services: Services, person: Person, call_id: CallArgument) -> Output:
    """Erase the words, values and numbers stored of a call. Its totals stay."""
    left = await calls_of(services).forget(call_id, person)
    named = f"; delete at the telephone service: {', '.join(left)}" if left else ""
    return Output(
        document={"id": call_id, "forgotten": True, "recordings": left},
        text=f"{call_id}: forgotten{named}",
    )


@command(calls, "deliveries")
async def deliveries(
    services: Services,
    agent: AgentOption = None,
    retry: Annotated[str | None, option("--retry", "ID", "Send this one now.")] = None,
    limit: LimitOption = 50,
) -> Output:
    """List requests to the APIs of agents, waiting and sent; with --retry, send one now and end
    with 1 if it is not accepted.
    """
    queue = services.life.deliveries
    if retry is None:
        return _deliveries(await queue.list(agent_id=agent, limit=limit))
    sent = await queue.retry(retry)
    await queue.wait_until_sent([sent.call_id], timeout_s=RETRY_WAIT_S)
    output = _deliveries([one for one in await queue.list(call_id=sent.call_id) if one.id == retry])
    (document,) = output.document["deliveries"]
    accepted = document["status"] == "done"
    return replace(output, document=document, exit_code=0 if accepted else EXIT_FAILED)


def _deliveries(stored: Sequence[Delivery]) -> Output:
    models = [DeliveryDocument.model_validate(delivery) for delivery in stored]
    documents = [model.model_dump(mode="json", by_alias=True) for model in models]
    return listing(
        {"deliveries": documents},
        ["id", "agent", "state", "attempts", "HTTP", "due", "error"],
        [_delivery_row(document) for document in documents],
        empty="No request to the API of an agent is waiting or was sent.",
        numbers=[3, 4],
        folded=6,
    )


def _delivery_row(delivery: dict[str, Any]) -> list[Any]:
    due = local_time(delivery["nextTime"], "seconds") if delivery["status"] == "waiting" else ""
    facts = [delivery[name] for name in ("id", "agentId", "status", "attempts")]
    return [*facts, delivery.get("httpStatus"), due, delivery.get("error")]
