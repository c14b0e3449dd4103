"""The commands `threads …`, `trace` and `usage`: stored conversations, the steps of their answers,
and the tokens and cost of models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from cli import render
from cli.command import command
from cli.common import local_time
from cli.messages import show_messages
from cli.options import LimitOption, OfGraphOption, argument, flag, option
from cli.output import Output, listing, nothing
from graphrag.agent.thread_store import Thread
from graphrag.agent.turn_lease import TurnLeases, effective_status
from graphrag.app.usage_groups import MAX_DAYS, usage_by
from graphrag.app.usage_report import By, UsageAnswer, usage_report
from graphrag.app.wiring import LOCAL_USER, Services
from graphrag.roles import Person

threads = typer.Typer(help="See and delete stored conversations.", no_args_is_help=True)

MAX_NODES = 8  # shown of one retrieval

IdArgument = Annotated[str, argument("ID", "A conversation's id (see `nodius threads list`).")]


@command(threads, "list")
async def list_threads(
    services: Services, person: Person, graph: OfGraphOption = None, limit: LimitOption = 100
) -> Output:
    """List conversations, newest first."""
    stored = await services.threads.list(person, graph_key=graph, limit=limit)
    current = [await _with_status(services, thread, person) for thread in stored]
    return listing(
        [thread.summary() for thread in current],
        ["id", "graph", "changed", "messages", "tokens", "state", "title"],
        [_row(thread) for thread in current],
        empty="There is no conversation yet: `nodius ask` and `nodius chat` begin one.",
        numbers=[3, 4],
        folded=6,
    )


def _row(thread: Thread) -> list[Any]:
    return [
        thread.key,
        thread.graph_key,
        local_time(thread.last_updated_time),
        thread.message_count,
        thread.total_tokens,
        thread.turn.status,
        thread.title,
    ]


@command(threads, "show")
async def show(
    services: Services,
    person: Person,
    thread_id: IdArgument,
    full: Annotated[bool, flag("--full", "Do not cut the results of tools.")] = False,
) -> Output:
    """Show a conversation; with --json also the messages sent to the model."""
    stored = await services.threads.get(thread_id, person)
    thread = await _with_status(services, stored.thread, person)

    def shown() -> None:
        status = thread.turn.status
        render.line(f"{thread.key}  {thread.graph_key}  {status}  {thread.title}", "bold")
        show_messages(thread.messages, full=full)

    history = {"conversationHistory": thread.conversation_history}
    return Output(
        document={**thread.summary(), **history, "pendingInterrupt": thread.pending_interrupt},
        text=shown,
    )


async def _with_status(services: Services, thread: Thread, person: Person) -> Thread:
    leases = TurnLeases(services.database.records(services.settings.workspace))
    return await effective_status(services.threads, leases, thread, person)


@command(threads, "delete")
async def delete(services: Services, person: Person, thread_id: IdArgument) -> Output:
    """Delete a conversation, after ending one with an agent. Its proposals can still be decided."""
    await services.life.endings.forget(thread_id, person)
    return Output(document={"success": True}, text=f"deleted {thread_id}")


@command()
async def trace(
    services: Services,
    person: Person,
    thread_id: Annotated[
        str, argument("THREAD", "A conversation's id (see `nodius threads list`).")
    ],
) -> Output:
    """Show the steps of each answer: nodes with scores, calls with time, tokens and cost."""
    await services.threads.get(thread_id, person)
    turns = await services.traces.of_thread(thread_id)
    document = {"threadId": thread_id, "turns": turns}
    if not turns:
        return nothing(
            document, "No steps are stored for this conversation: see the setting `trace_days`."
        )
    return Output(document=document, text=partial(_show_turns, turns))


def _show_turns(turns: Sequence[Mapping[str, Any]]) -> None:
    columns = ["what", "ms", "tokens in", "out", "cached", "US dollars"]
    for turn in turns:
        render.line(f"turn {turn['turn']}  {local_time(turn['time'])}", "bold")
        sizes = [f"{part['role']} {part['chars']:,}" for part in turn["context"]]
        render.line(f"  sent first, in characters: {', '.join(sizes) or 'nothing'}")
        render.table(columns, [_span_row(span) for span in turn["spans"]], numbers=range(1, 6))
        for span in turn["spans"]:
            for node in span["attributes"].get("nodes", ())[:MAX_NODES]:
                render.line(f"  {node['score']:>8.4f}  {node['key']}  {' '.join(node['reasons'])}")


def _span_row(span: Mapping[str, Any]) -> list[Any]:
    attributes = span["attributes"]
    flags = {"failed": span.get("failed"), "cached": attributes.get("cached")}
    cost = attributes.get("costUsd")
    tokens = [attributes.get(f"{kind}Tokens", "") for kind in ("input", "output", "cached")]
    name = " ".join([span["name"], *(word for word, is_set in flags.items() if is_set)])
    return [name, span["ms"], *tokens, "" if cost is None else f"{cost:.4f}"]


@command()
async def usage(
    services: Services,
    person: Person,
    by: Annotated[
        By | None,
        option("--by", "person|model|day|graph", "Add up calls, questions and decisions by it."),
    ] = None,
    days: Annotated[
        int, option("--days", "N", "With --by: the latest days, in UTC.", min=1, max=MAX_DAYS)
    ] = 30,
) -> Output:
    """Show the tokens and the known cost of your conversations, and the limits of
    this month (UTC).
    """
    places = [(services, person)]
    report = await usage_report(places)
    if by is None:
        return Output(document=report.model_dump(by_alias=True), text=partial(_show_usage, report))
    report = report.model_copy(update=dict(await usage_by(places, by, days)))
    document = report.model_dump(by_alias=True)
    if not report.groups:
        return nothing(document, f"Nothing was used in the last {days} days.")
    return Output(document=document, text=partial(_show_groups, report, by))


def _show_groups(report: UsageAnswer, by: By) -> None:
    rows = [
        [
            group.name or f"{group.others} others",
            group.questions,
            group.decisions,
            group.calls,
            f"{group.total_tokens:,}",
            f"{group.cached_tokens:,}",
            _dollars(group.cost),
        ]
        for group in report.groups
    ]
    columns = [by, "questions", "decisions", "calls", "tokens", "cached", "US dollars"]
    render.table(columns, rows, numbers=range(1, 7))
    if report.cut:
        render.line("There was more: only the latest is counted.")
    if report.days > report.kept_days:
        render.line(f"Calls are stored for {report.kept_days} days (setting `trace_days`).")


def _show_usage(report: UsageAnswer) -> None:
    models = [
        [
            model.provider,
            model.model,
            model.threads,
            f"{model.prompt_tokens:,}",
            f"{model.completion_tokens:,}",
            _dollars(model.cost),
        ]
        for model in report.models
    ]
    columns = ["provider", "model", "conversations", "prompt tokens", "answer tokens", "US dollars"]
    render.table(columns, models, numbers=[2, 3, 4, 5])
    if any(used.user_id != LOCAL_USER for used in report.people):
        people = [
            [used.user_id, used.threads, f"{used.total_tokens:,}", _dollars(used.cost)]
            for used in report.people
        ]
        render.table(["person", "conversations", "tokens", "US dollars"], people, numbers=[1, 2, 3])
    for limit in report.limits:
        tokens = f" of {limit.max_tokens:,}" if limit.max_tokens is not None else ""
        cost = f" of {limit.max_cost:.4f}" if limit.max_cost is not None else ""
        render.line(
            f"this month, {limit.whose}: {limit.used_tokens:,}{tokens} tokens, "
            f"{limit.used_cost:.4f}{cost} US dollars"
        )


def _dollars(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.4f}"
