"""The commands `threads`, `trace` and `usage`: conversations, how answers came about,
what they used.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from cli import render
from cli.common import EXIT_NOTHING, local_time
from cli.options import Common, LimitOption, OfGraphOption, argument, command, flag
from cli.turn_display import readable
from graphrag.agent.thread_store import Thread
from graphrag.agent.turn_lease import TurnLeases, effective_status
from graphrag.app.usage_report import usage_report
from graphrag.app.wiring import LOCAL_USER, Services
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage

threads = typer.Typer(help="See and delete stored conversations.", no_args_is_help=True)

FIRST_ENTRIES, FIRST_NODES = 5, 8
"""So many of what a tool returned, and of the nodes of a search, are shown at first."""

IdArgument = Annotated[str, argument("ID", "A conversation's id (see `nodius threads list`).")]


@command(threads, "list")
async def list_threads(
    common: Common, services: Services, graph: OfGraphOption = None, limit: LimitOption = 100
) -> None:
    """List conversations, newest first."""
    stored = await services.threads.list(services.local_person(), graph_key=graph, limit=limit)
    found = [await _with_status(services, thread) for thread in stored]
    common.show_list(
        [thread.summary() for thread in found],
        ["id", "graph", "changed", "messages", "tokens", "state", "title"],
        [
            [t.key, t.graph_key, local_time(t.last_updated_time), *counts, t.turn.status, t.title]
            for t in found
            for counts in [(t.message_count, t.total_tokens)]
        ],
        none="There is no conversation yet: `nodius ask` and `nodius chat` begin one.",
        numbers=[3, 4],
        folded=6,
    )


@command(threads, "show")
async def show(
    common: Common,
    services: Services,
    thread_id: IdArgument,
    full: Annotated[
        bool, flag("--full", "Show what tools returned whole, not just the first entries.")
    ] = False,
) -> None:
    """Show a conversation; with --json also what the model was sent."""
    stored = await services.threads.get(thread_id, services.local_person())
    thread = await _with_status(services, stored.thread)
    if common.as_json:
        history = {"conversationHistory": thread.conversation_history}
        render.json({**thread.summary(), **history, "pendingInterrupt": thread.pending_interrupt})
        return
    render.line(f"{thread.key}  {thread.graph_key}  {thread.turn.status}  {thread.title}", "bold")
    for message in thread.messages:
        _show_message(message, full=full)


async def _with_status(services: Services, thread: Thread) -> Thread:
    leases = TurnLeases(services.database.records(services.settings.workspace))
    return await effective_status(services.threads, leases, thread, services.local_person())


def _show_message(message: Message, *, full: bool) -> None:
    match message:
        case UserMessage():
            render.line()
            render.said("> ", message.content, "bold")
        case AssistantMessage():
            if message.content.strip():
                render.passage(textwrap.indent(readable(message.content), "  "))
        case ToolMessage():
            _show_result(message, full=full)
        case SystemMessage():
            if message.kind is not None:
                render.line(f"[{message.summary or message.content}]", "dim")


def _show_result(message: ToolMessage, *, full: bool) -> None:
    lines = message.content.splitlines()
    shown = lines if full else lines[: FIRST_ENTRIES + 1]  # a heading, the entries
    render.line(f"[{message.name}]", "dim")
    for one in shown:
        render.line(f"  {one if full else one[:200]}", "dim")
    if len(lines) > len(shown):
        render.line(f"  … {len(lines) - len(shown)} more (--full shows them)", "dim")


@command(threads, "delete")
async def delete(common: Common, services: Services, thread_id: IdArgument) -> None:
    """Delete a conversation; one with an agent ends first. What it proposed stays to be decided."""
    await services.life.endings.forget(thread_id, services.local_person())
    common.say({"success": True}, f"deleted {thread_id}")


@command()
async def trace(
    common: Common,
    services: Services,
    thread_id: Annotated[
        str, argument("THREAD", "A conversation's id (see `nodius threads list`).")
    ],
) -> None:
    """Show how answers came about: nodes with scores, calls with time, tokens and cost; --json:
    all of it.
    """
    await services.threads.get(thread_id, services.local_person())
    turns = await services.traces.of_thread(thread_id)
    if common.as_json:
        render.json({"threadId": thread_id, "turns": turns})
        return
    for turn in turns:
        render.line(f"turn {turn['turn']}  {local_time(turn['time'])}", "bold")
        sizes = [f"{part['role']} {part['chars']:,}" for part in turn["context"]]
        render.line(f"  sent first, in characters: {', '.join(sizes) or 'nothing'}")
        rows = [row for span in turn["spans"] for row in _span_rows(span)]
        render.table(
            ["what", "ms", "tokens in", "out", "cached", "US dollars"],
            rows,
            numbers=[1, 2, 3, 4, 5],
        )
        for span in turn["spans"]:
            for node in span["attributes"].get("nodes", ())[:FIRST_NODES]:
                render.line(f"  {node['score']:>8.4f}  {node['key']}  {' '.join(node['reasons'])}")
    if not turns:
        render.note("Nothing is noted of this conversation: see the setting `trace_days`.")
        raise typer.Exit(EXIT_NOTHING)


def _span_rows(span: Mapping[str, Any]) -> Iterator[list[Any]]:
    facts = span["attributes"]
    marks = [
        name
        for name, is_so in (("failed", span.get("failed")), ("cached", facts.get("cached")))
        if is_so
    ]
    cost = facts.get("costUsd")
    counts = [facts.get(name, "") for name in ("inputTokens", "outputTokens", "cachedTokens")]
    yield [
        " ".join([span["name"], *marks]),
        span["ms"],
        *counts,
        "" if cost is None else f"{cost:.4f}",
    ]


@command()
async def usage(common: Common, services: Services) -> None:
    """Show the tokens and the known cost of your conversations, and the limits of
    this month (UTC).
    """
    found = await usage_report([(services, services.local_person())])
    if common.as_json:
        render.json(found.model_dump(by_alias=True))
        return
    rows = [
        [
            m.provider,
            m.model,
            m.threads,
            f"{m.prompt_tokens:,}",
            f"{m.completion_tokens:,}",
            _dollars(m.cost),
        ]
        for m in found.models
    ]
    columns = ["provider", "model", "conversations", "prompt tokens", "answer tokens", "US dollars"]
    render.table(columns, rows, numbers=[2, 3, 4, 5])
    if any(used.user_id != LOCAL_USER for used in found.people):
        people = [
            [p.user_id, p.threads, f"{p.total_tokens:,}", _dollars(p.cost)] for p in found.people
        ]
        render.table(["person", "conversations", "tokens", "US dollars"], people, numbers=[1, 2, 3])
    for limit in found.limits:
        tokens = f" of {limit.max_tokens:,}" if limit.max_tokens is not None else ""
        cost = f" of {limit.max_cost:.4f}" if limit.max_cost is not None else ""
        render.line(
            f"this month, {limit.whose}: {limit.used_tokens:,}{tokens} tokens, "
            f"{limit.used_cost:.4f}{cost} US dollars"
        )


def _dollars(cost: float | None) -> str:
    return "unknown" if cost is None else f"{cost:.4f}"
