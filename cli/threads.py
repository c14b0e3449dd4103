"""The commands `threads list`, `show` and `delete`: conversations that are stored."""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer

from cli import render
from cli.common import Common, LimitOption, OfGraphOption, argument, command, flag, local_time
from cli.turn_display import readable
from graphrag.agent.thread_store import Thread
from graphrag.agent.turn_lease import TurnLeases, effective_status
from graphrag.app.wiring import Services
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage

threads = typer.Typer(help="See and delete stored conversations.", no_args_is_help=True)

FIRST_ENTRIES = 5
"""So many of what a tool returned are shown at first."""

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
