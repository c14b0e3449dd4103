"""The commands `agents …`: documents are checked and stored, agents started, stopped,
made of lists.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import quote

import typer

from cli import render
from cli.common import EXIT_FAILED, EXIT_USAGE, bytes_of, local_time, run, usage_error
from cli.options import Common, argument, command, flag, option
from graphrag.agents.agent_view import AgentSummary
from graphrag.agents.document import agent_schema
from graphrag.agents.document_check import CheckedDocument
from graphrag.agents.errors import AgentListRefused, InvalidAgent
from graphrag.agents.sync import SyncReport
from graphrag.agents.trying import try_tool
from graphrag.app.databases import database_file
from graphrag.app.wiring import Services
from graphrag.samples.demo_api import DEFAULT_PORT, serve_demo_api
from graphrag.voice.follow_up import without_service
from tools.http.problems import DocumentProblem

agents = typer.Typer(
    help="Declarative agents: documents that say how an assistant works.", no_args_is_help=True
)

IdArgument = Annotated[str, argument("ID", "An agent's id (see `nodius agents list`).")]
FilesArgument = Annotated[list[Path], argument("FILE...", "Documents in JSON or YAML; -: stdin.")]
VarOption = Annotated[
    list[str] | None, option("--var", "NAME=VALUE", "Value of a ${NAME}; may be repeated.")
]
BaseUrlOption = Annotated[
    str | None, option("--base-url", "URL", "In place of the document's base_url.")
]
JsonArgs = Annotated[str, option("--args", "JSON", "Arguments, as a model gives them.")]
MAX_FILE_BYTES = 1 << 20
HEALTH_STYLES = {"ok": "green", "degraded": "yellow", "failed": "red"}


def _health(agent: AgentSummary) -> str:
    return f"{agent.health} ({', '.join(agent.reasons)})" if agent.reasons else agent.health


def problem_text(problem: DocumentProblem) -> str:
    column = "" if problem.column is None else f", column {problem.column}"
    allowed = "" if problem.allowed is None else f"; allowed: {problem.allowed}"
    return f"{problem.where or 'document'}{column}: {problem.what} ({problem.code}){allowed}"


def show_problems(named: str, problems: Sequence[DocumentProblem]) -> None:
    """Print errors of what is named, on standard error."""
    for problem in problems:
        render.fault(f"{named}: error: {problem_text(problem)}")


@command(agents, "list")
async def list_agents(common: Common, services: Services) -> None:
    """List agents with their state and health.

    Also: version, open conversations, and what is wrong with lists.
    """
    found = await services.agents.list()
    lists = await services.agents.lists.reports()
    for report in () if common.as_json else lists:
        _show_trouble(report)
    common.show_list(
        {"agents": [agent.to_document() for agent in found], "lists": lists},
        ["id", "name", "state", "health", "version", "open"],
        [[a.id, a.name, a.state, _health(a), a.version, a.calls] for a in found],
        none="There is no agent yet: `nodius agents apply FILE --start`.",
        numbers=[4, 5],
        folded=1,
    )


@command(agents, "show")
async def show(
    common: Common,
    services: Services,
    agent_id: IdArgument,
    version: Annotated[int | None, option("--version", "N", "An older version.")] = None,
) -> None:
    """Print an agent's document.

    Which versions are kept stands on standard error.
    """
    stored = await services.agents.agents.get(agent_id)
    shown = await services.agents.agents.version(
        agent_id, stored.version if version is None else version
    )
    agent = await services.agents.view(agent_id)
    render.json(shown.document)
    if not common.as_json:
        kept = ", ".join(
            f"{each.version} ({local_time(each.created_time)})" for each in stored.versions
        )
        render.note(f"{agent_id} is {agent.state}, version {agent.version}; kept: {kept}")


@command(agents, "check")
def check(
    common: Common, files: FilesArgument, var: VarOption = None, base_url: BaseUrlOption = None
) -> None:
    """Check documents: every error with its place and what is allowed. Ends with 2 where
    there is one.
    """
    given = _variables(var)
    sources = [bytes_of(file, MAX_FILE_BYTES) for file in files]

    async def work(services: Services) -> list[tuple[CheckedDocument, dict[str, bool]]]:
        found: list[tuple[CheckedDocument, dict[str, bool]]] = []
        for source in sources:
            checked = await services.agents.check(source, given, base_url=base_url)
            uses = checked.document.secrets if checked.document else ()
            missing = services.agents.world.secrets.missing(use.name for use in uses)
            found.append((checked, {use.name: use.name not in missing for use in uses}))
        return found

    settings = common.settings()
    place = database_file(settings.db)
    if place is not None and not place.exists():  # nothing is made for looking at a file
        settings = settings.model_copy(update={"db": "memory:"})
    results = list(zip(files, run(settings, work), strict=True))
    if common.as_json:
        render.json(
            [_checked_document(file, checked, secrets) for file, (checked, secrets) in results]
        )
    for file, (checked, secrets) in () if common.as_json else results:
        _show_checked(file, checked, secrets)
    if any(checked.errors for _, (checked, _) in results):
        raise typer.Exit(EXIT_USAGE)


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
    common: Common,
    services: Services,
    files: FilesArgument,
    var: VarOption = None,
    base_url: BaseUrlOption = None,
    start: Annotated[bool, flag("--start", "Start them, too.")] = False,
) -> None:
    """Store documents as the newest versions of their agents. One that did not change gets
    no new version.
    """
    given = _variables(var)
    sources = [bytes_of(file, MAX_FILE_BYTES) for file in files]
    done: list[dict[str, Any]] = []
    person = services.local_person()
    for file, source in zip(files, sources, strict=True):
        try:
            applied = await services.agents.apply(
                source, person, variables=given, base_url=base_url
            )
            if start:
                await services.agents.start(applied.agent.agent_id)
        except InvalidAgent as exc:  # the other files are not at fault
            show_problems(str(file), exc.errors)
            continue
        agent = await services.agents.view(applied.agent.agent_id)
        warnings = [problem.to_document() for problem in applied.warnings]
        done.append({**agent.to_document(), "changed": applied.changed, "warnings": warnings})
    if common.as_json:
        render.json(done)
    for one in () if common.as_json else done:
        word = "stored" if one["changed"] else "unchanged"
        render.line(f"{one['id']}: version {one['version']} {word}, {one['state']}")
        for warning in one["warnings"]:
            render.note(f"  {warning['where']}: {warning['what']}")
    if len(done) < len(files):
        raise typer.Exit(EXIT_USAGE)


@command(agents, "start")
async def start_agent(common: Common, services: Services, agent_id: IdArgument) -> None:
    """Let an agent take conversations. Ends with 2 and says what it lacks where it cannot yet."""
    try:
        await services.agents.start(agent_id)
    except InvalidAgent as exc:
        show_problems(agent_id, exc.errors)
        raise typer.Exit(EXIT_USAGE) from None
    await _show_state(common, services, agent_id)


@command(agents, "stop")
async def stop_agent(
    common: Common,
    services: Services,
    agent_id: IdArgument,
    now: Annotated[bool, flag("--now", "End open conversations, too.")] = False,
) -> None:
    """Let no new conversation begin; open ones go on."""
    await services.agents.stop(agent_id)
    if now:
        await services.life.endings.end_all(agent_id=agent_id)
    await _show_state(common, services, agent_id)


async def _show_state(common: Common, services: Services, agent_id: str) -> None:
    agent = await services.agents.view(agent_id)
    common.say(
        agent.to_document(), f"{agent_id}: {agent.state}, version {agent.version}, {_health(agent)}"
    )
    for problem in () if common.as_json else agent.problems:
        render.note(f"  {problem_text(problem)}")


@command(agents, "delete")
async def delete(common: Common, services: Services, agent_id: IdArgument) -> None:
    """Delete a stopped agent with all its versions.

    It may have no open conversation.
    """
    await services.agents.delete(agent_id)
    common.say({"id": agent_id, "deleted": True}, f"{agent_id}: deleted")


@command(agents, "rollback")
async def rollback(
    common: Common,
    services: Services,
    agent_id: IdArgument,
    version: Annotated[int, argument("N", "A version that is kept.")],
) -> None:
    """Make an older version the current one.

    It is for conversations that begin from now on.
    """
    await services.agents.rollback(agent_id, version)
    await _show_state(common, services, agent_id)


@command(agents, "schema")
def schema(common: Common) -> None:  # noqa: ARG001 - it is JSON in any case
    """Print the JSON Schema of a document, for editors."""
    render.json(agent_schema())


@command(agents, "try")
async def try_one(
    common: Common,  # noqa: ARG001 - it is JSON in any case
    services: Services,
    agent_id: IdArgument,
    tool: Annotated[str, argument("TOOL", "An HTTP tool of its document.")],
    args: JsonArgs = "{}",
    ctx: Annotated[str, option("--ctx", "JSON", "Values of ctx.")] = "{}",
    send: Annotated[bool, flag("--send", "Send the requests.")] = False,
) -> None:
    """Print the requests that a tool would send.

    Secrets are masked; with --send they are sent, and what the tool gives is printed.
    """
    given = _object("--args", args)
    values = _object("--ctx", ctx)
    locale = services.life.locale
    found = await try_tool(services.agents, agent_id, tool, given, values, locale, sends=send)
    render.json(found)
    if send and not found["ok"]:
        raise typer.Exit(EXIT_FAILED)


@command(agents, "sync")
def sync(
    common: Common,
    source: Annotated[Path, argument("SOURCE", "File that names list and template.")],
    every: Annotated[
        int | None, option("--every", "S", "Go on, a round each S seconds.", min=1)
    ] = None,
    dry_run: Annotated[bool, flag("--dry-run", "Change nothing; say what would be.")] = False,
    allow_shrink: Annotated[
        bool, flag("--allow-shrink", "Also where the list lost more than half.")
    ] = False,
) -> None:
    """Make agents of somebody's list.

    Applies what changed, starts what is new, stops what is gone.
    """

    async def work(services: Services) -> bool:
        while True:
            try:
                report = await services.agents.lists.run(
                    source, dry_run=dry_run, allow_shrink=allow_shrink
                )
                common.say(report.to_document(), partial(_show_report, report))
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
                done.append(
                    f"{len(names)} {word} ({', '.join(names[:5])}{', …' if len(names) > 5 else ''})"
                )
        would = "would be: " if report.dry_run else ""
        render.line(f"{report.source}: {report.listed} listed; {would}{', '.join(done)}")
    _show_trouble(report.to_document())


def _show_trouble(report: dict[str, Any]) -> None:
    """Print why a list was not followed, and which of its items make no agent."""
    if report.get("error"):
        render.fault(f"{report['source']}: nothing was changed: {report['error']}")
    for broken in report.get("broken", ()):
        render.fault(f"{report['source']}: {broken['id'] or '?'}: {broken['what']}")


@command(agents, "twilio")
async def twilio(common: Common, services: Services, agent_id: IdArgument) -> None:
    """Print what to enter at Twilio for an agent's number.

    That is the address of its webhook, and the TwiML for "Primary handler fails", which connects
    callers with the document's fallback while this service cannot be reached.
    """
    settings = services.settings
    stored = await services.agents.agents.get(agent_id)
    agent = await services.agents.compiled(agent_id, stored.version)
    base = (settings.public_url or "https://VOICE.EXAMPLE.COM").rstrip("/")
    url = f"{base}/voice/{quote(settings.workspace, safe='')}/{quote(agent_id, safe='')}"
    fallback = without_service(agent, services.life.locale)
    if common.as_json:
        render.json({"webhook": url, "method": "POST", "fallbackTwiml": fallback})
        return
    render.line(f"A call comes in: Webhook, {url}, HTTP POST")
    render.line("Primary handler fails: TwiML Bin, with this text:")
    render.passage(fallback)
    if settings.public_url is None:
        render.note(
            "NODIUS_PUBLIC_URL is not set: put the address that Twilio reaches in its place."
        )
    if agent.document.voice.fallback is None:
        render.note(
            "The document names no voice.fallback: callers hear a sentence, and nobody is called."
        )


@command(agents, "health")
async def health(common: Common, services: Services) -> None:
    """Say of every agent how it is. Ends with 1 where one that should run failed."""
    found = await services.agents.list()
    if common.as_json:
        render.json([agent.to_document() for agent in found])
    for agent in () if common.as_json else found:
        render.line(f"{agent.id}: {_health(agent)}, {agent.state}", HEALTH_STYLES[agent.health])
        for problem in agent.problems:
            render.line(f"  {problem.where}: {problem.what}")
        if agent.model_error is not None:
            render.line(f"  the model's service says: {agent.model_error.sentence()}")
    if any(agent.health == "failed" for agent in found):
        raise typer.Exit(EXIT_FAILED)


@agents.command("demo-api")
def demo_api(
    port: Annotated[int, typer.Option("--port", metavar="N", min=1, max=65535)] = DEFAULT_PORT,
) -> None:
    """Serve the API of the sample documents on loopback."""
    render.note(
        f"Listening on http://127.0.0.1:{port}; set NODIUS_AGENT_HTTP_ALLOW=127.0.0.1:{port}."
    )
    serve_demo_api(port)


def _variables(given: Sequence[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            usage_error(f"--var {one!r}: write NAME=VALUE")
        found[name] = value
    return found


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(text)
    except ValueError as exc:
        usage_error(f"{option} is no JSON: {exc}")
    if not isinstance(found, dict):
        usage_error(f"{option} has to be an object")
    return cast(dict[str, Any], found)
