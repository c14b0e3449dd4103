"""The `nodius` command: one file a command group, gathered here."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from cli import (
    agents,
    agents_seen,
    ask,
    audit,
    automations,
    backup,
    call,
    calls,
    chat,
    check,
    db,
    demo,
    doctor,
    embed_nodes,
    eval,
    event,
    graphs,
    import_files,
    policy,
    prompt,
    review,
    serve,
    sessions,
    stream,
    threads,
    token,
    tools,
    workspace,
)
from graphrag.workers import collect_only_young

app = typer.Typer(
    name="nodius",
    help="Ask and change workflow graphs. Start with `nodius demo`: no key and no network needed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
)


def _version(shown: bool) -> None:
    if shown:
        from importlib.metadata import version  # slow to import, and seldom wanted

        typer.echo(f"nodius-graphrag {version('nodius-graphrag')}")
        raise typer.Exit


@app.callback()
def main(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Ask and change workflow graphs. Start with `nodius demo`: no key and no network needed."""


app.command("demo")(demo.demo)
app.command("serve")(serve.serve)
app.command("token")(token.token)
app.command("mcp")(serve.mcp)
app.command("stream")(stream.stream)
app.add_typer(graphs.graphs, name="graphs")
app.command("check")(check.check)
app.command("import")(import_files.import_files)
app.command("export")(graphs.export)
app.command("context")(prompt.context)
app.command("tools")(tools.tools)
app.command("prompt")(prompt.prompt)
app.command("embed-nodes")(embed_nodes.embed)
app.command("eval")(eval.run_evaluation)
app.command("doctor")(doctor.doctor)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(db.database, name="db")
app.command("ask")(ask.ask)
app.command("chat")(chat.chat)
app.add_typer(threads.threads, name="threads")
app.add_typer(automations.automations, name="automations")
app.command("event")(event.event)
app.add_typer(sessions.sessions, name="sessions")
app.add_typer(agents.agents, name="agents")
app.command("call")(call.call)
app.add_typer(calls.calls, name="calls")
app.command("usage")(threads.usage)
app.command("trace")(threads.trace)
app.add_typer(review.review, name="review")
app.command("search")(workspace.search)
app.command("uses")(workspace.uses)
app.command("replace")(workspace.replace)
app.add_typer(workspace.codemods, name="codemods")
app.command("policy")(policy.policy)
app.command("agents-seen")(agents_seen.agents_seen)
app.command("undo")(review.undo)
app.add_typer(audit.audit, name="audit")


def run() -> None:
    """Run the command line; the entry point of the `nodius` script."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            # A name may hold what the terminal, or any encoding, cannot show; a script expects UTF-8.
            encoding = output.encoding if output.isatty() else "utf-8"
            output.reconfigure(encoding=encoding, errors="backslashreplace")
    collect_only_young()
    app()
