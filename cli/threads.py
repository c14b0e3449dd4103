"""The commands `threads list`, `show` and `delete`: conversations that are stored."""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer

from cli import render
from cli.common import EXIT_NOTHING, Common, LimitOption, command, local_time
from cli.turn_display import readable
from graphrag.agent.thread_store import Thread
from graphrag.agent.turn_lease import TurnLeases, effective_status
from graphrag.app.wiring import Services
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage

threads = typer.Typer(help="See and delete stored conversations.", no_args_is_help=True)

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="A conversation's id (see `nodius threads list`).")
]


@threads.command("list")
@command()
def list_threads(
    common: Common,
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="GRAPH", help="About one graph only.")
    ] = None,
    limit: LimitOption = 100,
) -> None:
    """List conversations, newest first."""

    async def work(services: Services) -> list[Thread]:
        found = await services.threads.list(services.local_person(), graph_key=graph, limit=limit)
        return [await _with_status(services, thread) for thread in found]

    found = common.run(work)
    if common.as_json:
        render.json([thread.summary() for thread in found])
    elif found:
        columns = ["id", "graph", "changed", "messages", "tokens", "state", "title"]
        rows = [
            [t.key, t.graph_key, local_time(t.last_updated_time), *counts, t.turn.status, t.title]
            for t in found
            for counts in [(t.message_count, t.total_tokens)]
        ]
        render.table(columns, rows, numbers=[3, 4], folded=6)
    if not found:
        render.note("There is no conversation yet: `nodius ask` and `nodius chat` begin one.")
        raise typer.Exit(EXIT_NOTHING)


@threads.command("show")
@command()
def show(common: Common, thread_id: IdArgument) -> None:
    """Show a conversation; with --json also what the model was sent."""

    async def work(services: Services) -> Thread:
        stored = await services.threads.get(thread_id, services.local_person())
        return await _with_status(services, stored.thread)

    thread = common.run(work)
    if common.as_json:
        history = {"conversationHistory": thread.conversation_history}
        render.json({**thread.summary(), **history, "pendingInterrupt": thread.pending_interrupt})
        return
    render.line(f"{thread.key}  {thread.graph_key}  {thread.turn.status}  {thread.title}", "bold")
    for message in thread.messages:
        _show_message(message)


async def _with_status(services: Services, thread: Thread) -> Thread:
    leases = TurnLeases(services.database.records(services.settings.workspace))
    return await effective_status(services.threads, leases, thread, services.local_person())


def _show_message(message: Message) -> None:
    match message:
        case UserMessage():
            render.line()
            render.said("> ", message.content, "bold")
        case AssistantMessage():
            if message.content.strip():
                render.passage(textwrap.indent(readable(message.content), "  "))
        case ToolMessage():
            render.line(
                f"[{message.name}] {message.content.splitlines()[0][:200] if message.content else ''}", "dim"
            )
        case SystemMessage():
            if message.kind is not None:
                render.line(f"[{message.summary or message.content}]", "dim")


@threads.command("delete")
@command()
def delete(common: Common, thread_id: IdArgument) -> None:
    """Delete a conversation. What it proposed stays to be decided."""

    async def work(services: Services) -> None:
        await services.threads.delete(thread_id, services.local_person())

    common.run(work)
    if common.as_json:
        render.json({"success": True})
    else:
        render.line(f"deleted {thread_id}")
