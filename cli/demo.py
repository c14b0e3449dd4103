"""The `demo` command: sample graphs in a database, then the page with a question answered, or
a tour here.
"""

from __future__ import annotations

import re
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import uvicorn
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cli import render
from cli.common import fail, run
from cli.demo_tour import Tour, call_the_helpdesk
from cli.embed_nodes import show_report
from cli.import_files import show_outcome
from cli.options import Common, command, flag, option
from cli.prompt import summary
from cli.serve import open_page, serve_settings
from graphrag.agent.events import TurnStarted
from graphrag.app.models import rules_provider
from graphrag.app.wiring import Services, open_agent
from graphrag.asgi_server import served_on
from graphrag.embedding.refresh import embed_nodes
from graphrag.i18n import text
from graphrag.importers import UnreadableWorkflow
from graphrag.importers.exchange import import_bytes
from graphrag.llm.registry import ENTRIES, ProviderChoice
from graphrag.retrieval.prepared_prompt import prepare_prompt
from mock_data import load_text

GRAPH = "testgraph001"
SAMPLES = {
    "nba.json": GRAPH,
    "workflows/order_refund.json": "order-refund",
    "workflows/greenhouse_climate.json": "greenhouse-climate",
}
"""Files of the package `mock_data`, and the keys of their graphs."""

_SPACED = re.compile(r"[\w ,.:?'/-]* [\w ,.:?'/-]*")
"""Text that is quoted by double quotes alone, as a person would."""

SHOWN_CHARS = 120  # of a line of a context


@command(json=False)
def demo(
    common: Common,
    serves: Annotated[
        bool | None, flag("--serve/--no-serve", "Then serve the page (default: on a terminal).")
    ] = None,
    browser: Annotated[
        bool, flag("--browser/--no-browser", "Open the page where there is a screen.")
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
    listening = socket.create_server(("127.0.0.1", 0))  # of the API that the sample agent calls

    async def work(services: Services) -> str | int:
        render.heading(f"1. Import into {services.database.url}, workspace {settings.workspace}")
        await _import(services)
        render.heading("2. Embed the nodes (no key, no network)")
        await _embed(services)
        render.heading(f"3. Ask {GRAPH}: {question}")
        if is_serving:
            thread = await _answered(services, question)
            await keep_recorded_conversation(services, GRAPH)
            render.line(
                "answered on the page, by rules; among its threads a recorded one shows what a model adds"
            )
            return f"#graph={GRAPH}&thread={thread}"
        await _show(services, question)
        return await Tour(services, GRAPH, first=4, listening=listening).show()

    with listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        allowed = {
            "agent_http_allow": (*settings.agent_http_allow, address)
        }  # for as long as it listens
        opened = run(settings.model_copy(update=allowed), work, creates=True)
    if is_serving:
        _try_next(question, common)
        render.heading("The page")
        shown = partial(_show_page, fragment=str(opened), opens=browser)
        serve_settings(settings, on_ready=shown, any_port=port is None)
    else:
        render.heading(f"{opened}. Call that agent: a simulated telephone, a double of the model")
        call_the_helpdesk(settings, GRAPH)
        _try_next(question, common)


async def _answered(services: Services, question: str) -> str:
    """Return the key of a conversation in which rules answered the question, made unless
    it is there.
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
    render.line(f"{address}{fragment} ({'opened in your browser; ' if opened else ''}Ctrl-C ends)")


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
    """Prints the context as a model reads it, its long lines shortened."""
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
    """Return a command as this person can type it: `nodius` where the shell finds it, else
    by its path.
    """
    called = Path(sys.argv[0])
    found = shutil.which("nodius")
    if called.name != "nodius" or (found is not None and Path(found).resolve() == called.resolve()):
        called = Path("nodius")
    quoted = [f'"{part}"' if _SPACED.fullmatch(part) else shlex.quote(part) for part in arguments]
    return " ".join([shlex.quote(str(called)), *quoted])


END = "data: [DONE]\n\n"
MODEL = "sample-model"


async def keep_recorded_conversation(services: Services, graph: str) -> None:
    """Store the recorded conversation, which shows what a model adds, marked as such, unless
    it is there.

    A server on loopback streams it from a file in the wire format of OpenAI's chat completions: all
    of the turn but the model is real.
    """
    # Imported here: every command loads this module, and the client library takes a quarter
    # of its start.
    from graphrag.llm.openai_compatible import OpenAICompatibleProvider

    language = services.settings.language
    person = services.local_person()
    question = text("demo_recorded_question", language)
    title = text("demo_recorded_title", language, question=question)
    if any(
        thread.title == title for thread in await services.threads.list(person, graph_key=graph)
    ):
        return
    begun = await services.threads.save(services.threads.begin(graph, person, title=title), [])
    replies = iter(load_text(f"recorded/{language}.sse").split(END))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        config = uvicorn.Config(
            _recording(replies), lifespan="off", log_level="error", access_log=False
        )
        choice = ProviderChoice(
            entry=ENTRIES["openai"], model=MODEL, base_url=url, key=SecretStr("none")
        )
        provider = OpenAICompatibleProvider(choice)
        try:
            async with served_on(config, listening), open_agent(services, provider) as agent:
                async for _ in agent.run(begun.thread.key, graph, question, person):
                    pass
        finally:
            await provider.aclose()


def _recording(replies: Iterator[str]) -> Starlette:
    """Return a server that answers each request with the next part of a recording."""

    async def answer(_: Request) -> Response:
        return Response(next(replies) + END, media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
