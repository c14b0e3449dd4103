"""The `demo` command: imports sample graphs and serves the page, or prints a tour."""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cli import render
from cli.command import command
from cli.common import fail, run
from cli.demo_tour import Tour, call_the_helpdesk, show_the_helpdesk_call
from cli.embed_nodes import show_report
from cli.import_files import show_outcome
from cli.options import Common, flag, option
from cli.prompt import summary
from cli.serve import open_page, serve_settings
from graphrag.agent.events import TurnStarted
from graphrag.app.demo_contents import is_call_stored, note_call, store_demo_contents
from graphrag.app.model_services import open_agent
from graphrag.app.models import rules_provider
from graphrag.app.wiring import Services
from graphrag.config import Settings
from graphrag.embedding.refresh import embed_nodes
from graphrag.i18n import text
from graphrag.importers import UnreadableWorkflow
from graphrag.importers.exchange import import_bytes
from graphrag.retrieval.prepared_prompt import prepare_prompt
from mock_data import load_text

T = TypeVar("T")

GRAPH = "testgraph001"
SAMPLES = {
    "nba.json": GRAPH,
    "workflows/order_refund.json": "order-refund",
    "workflows/greenhouse_climate.json": "greenhouse-climate",
}  # files of the package `mock_data`, and the keys of their graphs

_SPACED = re.compile(r"[\w ,.:?'/-]* [\w ,.:?'/-]*")  # a text that needs no more than quotes

SHOWN_CHARS = 120  # of a line of a context


@command(json=False)
def demo(
    common: Common,
    serves: Annotated[
        bool | None,
        flag("--serve/--no-serve", "Serve the page afterwards (default: on a terminal)."),
    ] = None,
    browser: Annotated[
        bool, flag("--browser/--no-browser", "Open the page if there is a screen.")
    ] = True,
    port: Annotated[
        int | None, option("--port", "N", "Port of the page; 0: any.", min=0, max=65535)
    ] = None,
) -> None:
    """Import sample graphs, ask one, then serve the page; in a script or with --no-serve,
    a tour instead.
    """
    settings = common.settings(port=port)
    question = text("demo_first_question", settings.language)
    is_serving = serves if serves is not None else sys.stdin.isatty() and sys.stdout.isatty()
    if is_serving:
        fragment = _with_sample_api(settings, partial(_prepare_page, question=question))
        _store_call(settings)
        _try_next(question, common)
        render.heading("The page")
        shown = partial(_show_page, fragment=fragment, opens=browser)
        serve_settings(settings, on_ready=shown, any_port=port is None)
    else:
        number = _with_sample_api(settings, partial(_show_tour, question=question))
        render.heading(f"{number}. Call that agent: a simulated telephone, a double of the model")
        show_the_helpdesk_call(settings, GRAPH)
        _try_next(question, common)


def _store_call(settings: Settings) -> None:
    """Stores a simulated call for the page, unless it did so before."""
    if run(settings, is_call_stored):
        return
    simulated = call_the_helpdesk(settings, GRAPH)
    if simulated is not None:
        run(settings, partial(note_call, call_id=simulated.call_id))


def _with_sample_api(
    settings: Settings, work: Callable[[Services, socket.socket], Coroutine[Any, Any, T]]
) -> T:
    """Returns the result of `work` with the services, while the API of the sample agent may be
    called. `work` also gets the socket for the API.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        allowed = {"agent_http_allow": (*settings.agent_http_allow, address)}
        with_api = settings.model_copy(update=allowed)
        return run(with_api, lambda services: work(services, listening), creates=True)


async def _prepare(services: Services, question: str) -> None:
    """Prints the first parts: imports the samples, embeds them and announces the question."""
    render.heading(
        f"1. Import into {services.database.url}, workspace {services.settings.workspace}"
    )
    await _import(services)
    render.heading("2. Embed the nodes (no key, no network)")
    await _embed(services)
    render.heading(f"3. Ask {GRAPH}: {question}")


async def _prepare_page(services: Services, _: socket.socket, *, question: str) -> str:
    """Prepares the graphs and conversations of the page. Returns the fragment of its address."""
    await _prepare(services, question)
    thread = await _answered(services, question)
    await store_demo_contents(services, GRAPH, others=("order-refund",))
    render.line(
        "answered on the page, by rules; among its threads a recorded one shows what a model adds,"
    )
    render.line(
        "beside an agent, a simulated call, an automation that ran once, and a proposal that waits"
    )
    return f"#graph={GRAPH}&thread={thread}"


async def _show_tour(services: Services, listening: socket.socket, *, question: str) -> int:
    """Prints the tour and returns the number of its next part."""
    await _prepare(services, question)
    await _show(services, question)
    return await Tour(services, GRAPH, first=4, listening=listening).show()


async def _answered(services: Services, question: str) -> str:
    """Returns the key of a conversation in which rules answered the question. Creates it if it is
    missing.
    """
    person = services.local_person()
    for thread in await services.threads.list(person, graph_key=GRAPH):
        if thread.title == question:
            return thread.key
    async with open_agent(services, rules_provider()) as agent:
        started = [
            event.thread_id
            async for event in agent.run(None, GRAPH, question, person)
            if isinstance(event, TurnStarted)
        ]
    return started[0]


def _show_page(address: str, *, fragment: str, opens: bool) -> None:
    opened = opens and open_page(address + fragment)
    what_next = f"({'opened in your browser; ' if opened else ''}Ctrl-C ends)"
    render.line(f"{address}{fragment} {what_next}", copied=True)


async def _import(services: Services) -> None:
    for name, key in SAMPLES.items():
        file = Path(name).name
        try:
            outcome = await import_bytes(
                services.approvals,
                load_text(name).encode(),
                services.local_person(),
                file_name=file,
                graph_key=key,
            )
        except UnreadableWorkflow as exc:
            fail(f"{exc.reason}; the demo can have a database of its own: --db sqlite:demo.db")
        show_outcome(outcome)


async def _embed(services: Services) -> None:
    if services.embedder is None:
        render.line("embeddings are turned off; text search alone will answer")
        return
    with render.progress("embedding nodes") as update:
        report = await embed_nodes(
            services.source, services.embedder, graph_keys=list(SAMPLES.values()), progress=update
        )
    show_report(report)


async def _show(services: Services, question: str) -> None:
    """Prints the context that a model reads, with its long lines cut."""
    prompt = await prepare_prompt(
        services.source,
        services.retriever,
        GRAPH,
        question,
        role="editor",
        options=services.context_options,
    )
    lines = prompt.context.text.splitlines()
    render.passage("\n".join(_shown(line) for line in lines))
    render.note(summary(prompt))
    render.note(f"Lines are cut to {SHOWN_CHARS} characters here; `nodius context` shows all.")


def _shown(line: str) -> str:
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 1]}…"


def _try_next(question: str, common: Common) -> None:
    second = text("demo_second_question", common.settings().language)
    given = {"--db": common.db, "--workspace": common.workspace, "--lang": common.lang}
    flags = [part for name, value in given.items() if value is not None for part in (name, value)]
    render.heading("Try next")
    for arguments in (
        ("graphs",),
        ("serve",),
        ("ask", "order-refund", second),
        ("chat", GRAPH),
        ("audit",),
        ("context", "order-refund", second),
        ("prompt", GRAPH, question),
        ("tools", GRAPH, "--run"),
        ("import", "FILE.json"),
        ("doctor",),
    ):
        render.passage("  " + _command([*arguments, *flags]))


def _command(arguments: Sequence[str]) -> str:
    """Returns a command to type: `nodius` if the shell finds it, else its path."""
    program = Path(sys.argv[0])
    installed = shutil.which("nodius")
    if program.name != "nodius" or (
        installed is not None and Path(installed).resolve() == program.resolve()
    ):
        program = Path("nodius")
    quoted = [f'"{part}"' if _SPACED.fullmatch(part) else shlex.quote(part) for part in arguments]
    return " ".join([shlex.quote(str(program)), *quoted])
