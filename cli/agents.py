"""The commands `agents …`: check and store documents of agents, start and stop agents, and follow
lists of agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, EXIT_USAGE, local_time, run, usage_error
from cli.inputs import bytes_of, object_of
from cli.options import Common, OptionGroup, argument, flag, option
from cli.output import Output, listing
from graphrag.agents.agent_view import AgentSummary
from graphrag.agents.document import agent_schema
from graphrag.agents.document_check import CheckedDocument
from graphrag.agents.errors import AgentListRefused, InvalidAgent
from graphrag.agents.sync import SyncReport
from graphrag.agents.trying import try_tool
from graphrag.app.databases import database_file
from graphrag.app.wiring import Services
from graphrag.roles import Person
from graphrag.samples.demo_api import DEFAULT_PORT, serve_demo_api
from graphrag.voice.follow_up import without_service
from tools.http.problems import DocumentProblem

agents = typer.Typer(
    help="Declarative agents: documents that describe how an assistant works.",
    no_args_is_help=True,
)

IdArgument = Annotated[str, argument("ID", "An agent's id (see `nodius agents list`).")]
MAX_FILE_BYTES = 1 << 20
MAX_NAMES = 5  # printed of one kind of change
HEALTH_STYLES = {"ok": "green", "degraded": "yellow", "failed": "red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOptions(OptionGroup):
    """Files with documents of agents, and values for them."""

    files: Annotated[list[Path], argument("FILE...", "Documents in JSON or YAML; -: stdin.")]
    var: Annotated[
        list[str] | None, option("--var", "NAME=VALUE", "Value of a ${NAME}; may be repeated.")
    ] = None
    base_url: Annotated[
        str | None, option("--base-url", "URL", "Replaces the document's base_url.")
    ] = None

    def contents(self) -> list[bytes]:
        return [bytes_of(file, MAX_FILE_BYTES) for file in self.files]

    def variables(self) -> dict[str, str]:
        """Returns the values of variables. Ends the program for one that is malformed."""
        values: dict[str, str] = {}
        for assignment in self.var or ():
            name, equals, value = assignment.partition("=")
            if not equals or not name:
                usage_error(f"--var {assignment!r}: write NAME=VALUE")
            values[name] = value
        return values


def _health(agent: AgentSummary) -> str:
    return f"{agent.health} ({', '.join(agent.reasons)})" if agent.reasons else agent.health


def problem_text(problem: DocumentProblem) -> str:
    """Returns a problem of a document with its place and the allowed values."""
    column = "" if problem.column is None else f", column {problem.column}"
    allowed = "" if problem.allowed is None else f"; allowed: {problem.allowed}"
    return f"{problem.where or 'document'}{column}: {problem.what} ({problem.code}){allowed}"


def show_problems(named: str, problems: Sequence[DocumentProblem]) -> None:
    """Prints the errors of a document on standard error. `named`: the name of the document."""
    for problem in problems:
        render.fault(f"{named}: error: {problem_text(problem)}")


@command(agents, "list")
async def list_agents(common: Common, services: Services) -> Output:
    """List agents with their state, health, version and open conversations, and the problems of
    lists.
    """
    stored = await services.agents.list()
    lists = await services.agents.lists.reports()
    for report in () if common.as_json else lists:
        _show_list_problems(report)
    return listing(
        {"agents": [agent.to_document() for agent in stored], "lists": lists},
        ["id", "name", "state", "health", "version", "open"],
        [[a.id, a.name, a.state, _health(a), a.version, a.calls] for a in stored],
        empty="There is no agent yet: `nodius agents apply FILE --start`.",
        numbers=[4, 5],
        folded=1,
    )


@command(agents, "show")
async def show(
    services: Services,
    agent_id: IdArgument,
    version: Annotated[int | None, option("--version", "N", "An older version.")] = None,
) -> Output:
    """Print an agent's document. The kept versions are listed on standard error."""
    stored = await services.agents.agents.get(agent_id)
    shown = await services.agents.agents.version(
        agent_id, stored.version if version is None else version
    )
    agent = await services.agents.view(agent_id)

    def show_document() -> None:
        render.json(shown.document)
        kept = ", ".join(
            f"{each.version} ({local_time(each.created_time)})" for each in stored.versions
        )
        render.note(f"{agent_id} is {agent.state}, version {agent.version}; kept: {kept}")

    return Output(document=shown.document, text=show_document)


@command(agents, "check")
def check(common: Common, documents: DocumentOptions) -> Output:
    """Check documents: every error with its place and the allowed values. Ends with 2 if there is
    an error.
    """
    variables = documents.variables()
    contents = documents.contents()

    async def work(services: Services) -> list[tuple[CheckedDocument, dict[str, bool]]]:
        results: list[tuple[CheckedDocument, dict[str, bool]]] = []
        for content in contents:
            checked = await services.agents.check(content, variables, base_url=documents.base_url)
            uses = checked.document.secrets if checked.document else ()
            missing = services.agents.world.secrets.missing(use.name for use in uses)
            results.append((checked, {use.name: use.name not in missing for use in uses}))
        return results

    settings = common.settings()
    place = database_file(settings.db)
    if place is not None and not place.exists():  # checking a file creates no database
        settings = settings.model_copy(update={"db": "memory:"})
    results = list(zip(documents.files, run(settings, work), strict=True))

    def show() -> None:
        for file, (checked, secrets) in results:
            _show_checked(file, checked, secrets)

    invalid = any(checked.errors for _, (checked, _) in results)
    return Output(
        document=[
            _checked_document(file, checked, secrets) for file, (checked, secrets) in results
        ],
        text=show,
        exit_code=EXIT_USAGE if invalid else 0,
    )


def _checked_document(
    file: Path, checked: CheckedDocument, secrets: Mapping[str, bool]
) -> dict[str, Any]:
    return {
        "file": str(file),
        "ok": not checked.errors,
        "errors": [problem.to_document() for problem in checked.errors],
        "warnings": [problem.to_document() for problem in checked.warnings],
        "secrets": {name: "present" if there else "missing" for name, there in secrets.items()},
    }


def _show_checked(file: Path, checked: CheckedDocument, secrets: Mapping[str, bool]) -> None:
    for problem in checked.errors:
        render.line(f"{file}: error: {problem_text(problem)}", "red")
    for problem in checked.warnings:
        render.line(f"{file}: warning: {problem_text(problem)}", "yellow")
    for name, is_there in secrets.items():
        render.line(f"{file}: secret {name}: {'present' if is_there else 'missing'}")
    if not checked.errors:
        render.line(f"{file}: valid")


@command(agents, "apply", creates=True)
async def apply(
    services: Services,
    person: Person,
    documents: DocumentOptions,
    start: Annotated[bool, flag("--start", "Also start the agents.")] = False,
) -> Output:
    """Store documents as the newest versions of their agents. An unchanged document gets no new
    version.
    """
    variables = documents.variables()
    stored: list[dict[str, Any]] = []
    for file, content in zip(documents.files, documents.contents(), strict=True):
        try:
            applied = await services.agents.apply(
                content, person, variables=variables, base_url=documents.base_url
            )
            if start:
                await services.agents.start(applied.agent.agent_id)
        except InvalidAgent as exc:  # the other files are stored
            show_problems(str(file), exc.errors)
            continue
        agent = await services.agents.view(applied.agent.agent_id)
        warnings = [problem.to_document() for problem in applied.warnings]
        stored.append({**agent.to_document(), "changed": applied.changed, "warnings": warnings})
    return Output(
        document=stored,
        text=partial(_show_applied, stored),
        exit_code=EXIT_USAGE if len(stored) < len(documents.files) else 0,
    )


def _show_applied(stored: Sequence[Mapping[str, Any]]) -> None:
    for agent in stored:
        word = "stored" if agent["changed"] else "unchanged"
        render.line(f"{agent['id']}: version {agent['version']} {word}, {agent['state']}")
        for warning in agent["warnings"]:
            render.note(f"  {warning['where']}: {warning['what']}")


@command(agents, "start")
async def start_agent(services: Services, agent_id: IdArgument) -> Output:
    """Start an agent: it accepts conversations. Ends with 2 and its problems if it cannot yet."""
    try:
        await services.agents.start(agent_id)
    except InvalidAgent as exc:
        show_problems(agent_id, exc.errors)
        raise typer.Exit(EXIT_USAGE) from None
    return await _state(services, agent_id)


@command(agents, "stop")
async def stop_agent(
    services: Services,
    agent_id: IdArgument,
    now: Annotated[bool, flag("--now", "Also end open conversations.")] = False,
) -> Output:
    """Stop an agent: no new conversation begins; open ones continue."""
    await services.agents.stop(agent_id)
    if now:
        await services.life.endings.end_all(agent_id=agent_id)
    return await _state(services, agent_id)


async def _state(services: Services, agent_id: str) -> Output:
    agent = await services.agents.view(agent_id)

    def show() -> None:
        render.line(f"{agent_id}: {agent.state}, version {agent.version}, {_health(agent)}")
        for problem in agent.problems:
            render.note(f"  {problem_text(problem)}")

    return Output(document=agent.to_document(), text=show)


@command(agents, "delete")
async def delete(services: Services, agent_id: IdArgument) -> Output:
    """Delete a stopped agent with all its versions. It must have no open conversation."""
    await services.agents.delete(agent_id)
    return Output(document={"id": agent_id, "deleted": True}, text=f"{agent_id}: deleted")


@command(agents, "rollback")
async def rollback(
    services: Services,
    agent_id: IdArgument,
    version: Annotated[int, argument("N", "A kept version.")],
) -> Output:
    """Make an older version the current one, for new conversations."""
    await services.agents.rollback(agent_id, version)
    return await _state(services, agent_id)


def _json(document: Any, *, exit_code: int = 0) -> Output:
    """Returns output that is JSON also without --json."""
    return Output(document=document, text=partial(render.json, document), exit_code=exit_code)


@command(agents, "schema")
def schema() -> Output:
    """Print the JSON Schema of a document, for editors."""
    return _json(agent_schema())


@command(agents, "try")
async def try_one(
    services: Services,
    agent_id: IdArgument,
    tool: Annotated[str, argument("TOOL", "An HTTP tool of its document.")],
    args: Annotated[str, option("--args", "JSON", "Arguments, as a model gives them.")] = "{}",
    ctx: Annotated[str, option("--ctx", "JSON", "Values of ctx.")] = "{}",
    send: Annotated[bool, flag("--send", "Send the requests.")] = False,
) -> Output:
    """Print the requests of a tool, with secrets masked; with --send, send them and print the
    result.
    """
    arguments = object_of("--args", args)
    values = object_of("--ctx", ctx)
    locale = services.life.locale
    trial = await try_tool(services.agents, agent_id, tool, arguments, values, locale, sends=send)
    return _json(trial, exit_code=EXIT_FAILED if send and not trial["ok"] else 0)


@command(agents, "sync")
def sync(
    common: Common,
    source: Annotated[Path, argument("SOURCE", "File that names list and template.")],
    every: Annotated[int | None, option("--every", "S", "Repeat every S seconds.", min=1)] = None,
    dry_run: Annotated[
        bool, flag("--dry-run", "Only print the changes that would be made.")
    ] = False,
    allow_shrink: Annotated[
        bool, flag("--allow-shrink", "Also if the list lost more than half of its items.")
    ] = False,
) -> None:
    """Make agents from a list: apply changed items, start new ones, stop removed ones."""

    async def work(services: Services) -> bool:
        while True:
            try:
                report = await services.agents.lists.run(
                    source, dry_run=dry_run, allow_shrink=allow_shrink
                )
                output = Output(document=report.to_document(), text=partial(_show_report, report))
                output.finish(as_json=common.as_json)
                if every is None:
                    return report.error is None and not report.broken
            except AgentListRefused as exc:
                if every is None:
                    raise
                render.fault(f"{exc}: {exc.reason}")
            await asyncio.sleep(every)

    if not run(common.settings(), work, creates=not dry_run):
        raise typer.Exit(EXIT_FAILED)


def _show_report(report: SyncReport) -> None:
    if report.error is None:
        done = [f"{report.unchanged} unchanged"]
        for word in ("created", "changed", "started", "stopped", "kept"):
            names: list[str] = getattr(report, word)
            if names:
                shown = ", ".join(names[:MAX_NAMES]) + (", …" if len(names) > MAX_NAMES else "")
                done.append(f"{len(names)} {word} ({shown})")
        would = "would be: " if report.dry_run else ""
        render.line(f"{report.source}: {report.listed} listed; {would}{', '.join(done)}")
    _show_list_problems(report.to_document())


def _show_list_problems(report: Mapping[str, Any]) -> None:
    """Prints why a list was not applied, and its items that make no agent."""
    if report.get("error"):
        render.fault(f"{report['source']}: nothing was changed: {report['error']}")
    for broken in report.get("broken", ()):
        render.fault(f"{report['source']}: {broken['id'] or '?'}: {broken['what']}")


@command(agents, "twilio")
async def twilio(services: Services, agent_id: IdArgument) -> Output:
    """Print the values to enter at Twilio for an agent's number.

    These are the address of its webhook, and the TwiML for "Primary handler fails", which connects
    callers to the fallback of the document while this service cannot be reached.
    """
    settings = services.settings
    stored = await services.agents.agents.get(agent_id)
    agent = await services.agents.compiled(agent_id, stored.version)
    base = (settings.public_url or "https://VOICE.EXAMPLE.COM").rstrip("/")
    url = f"{base}/voice/{quote(settings.workspace, safe='')}/{quote(agent_id, safe='')}"
    fallback = without_service(agent, services.life.locale)

    def show() -> None:
        render.line(f"A call comes in: Webhook, {url}, HTTP POST", copied=True)
        render.line("Primary handler fails: TwiML Bin, with this text:")
        render.passage(fallback)
        if settings.public_url is None:
            render.note(
                "NODIUS_PUBLIC_URL is not set: replace VOICE.EXAMPLE.COM by the address that Twilio reaches."
            )
        if agent.document.voice.fallback is None:
            render.note(
                "The document has no voice.fallback: callers hear a sentence and are not connected."
            )

    document = {"webhook": url, "method": "POST", "fallbackTwiml": fallback}
    return Output(document=document, text=show)


@command(agents, "health")
async def health(services: Services) -> Output:
    """Show the health of every agent, and the problems of lists. Ends with 1 if an agent that
    should run failed.
    """
    stored = await services.agents.list()
    lists = await services.agents.lists.reports()

    def show() -> None:
        for agent in stored:
            render.line(f"{agent.id}: {_health(agent)}, {agent.state}", HEALTH_STYLES[agent.health])
            for problem in agent.problems:
                render.line(f"  {problem.where}: {problem.what}")
            if agent.model_error is not None:
                render.line(f"  the model's service says: {agent.model_error.sentence()}")
        for report in lists:
            _show_list_problems(report)

    failed = any(agent.health == "failed" for agent in stored)
    return Output(
        document=[agent.to_document() for agent in stored],
        text=show,
        exit_code=EXIT_FAILED if failed else 0,
    )


@agents.command("demo-api")
def demo_api(
    port: Annotated[int, typer.Option("--port", metavar="N", min=1, max=65535)] = DEFAULT_PORT,
) -> None:
    """Serve the API of the sample documents on loopback."""
    render.note(
        f"Listening on http://127.0.0.1:{port}; set NODIUS_AGENT_HTTP_ALLOW=127.0.0.1:{port}.",
        copied=True,
    )
    serve_demo_api(port)
