"""Stores a recorded conversation with a model, as an example where no model is configured."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import uvicorn
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from graphrag.app.model_services import open_agent
from graphrag.app.wiring import Services
from graphrag.asgi_server import served_on
from graphrag.i18n import text
from graphrag.llm.registry import ENTRIES, ProviderChoice
from mock_data import load_text

END = "data: [DONE]\n\n"  # of one reply in the recording
MODEL = "sample-model"


async def store_recorded_conversation(services: Services, graph: str) -> None:
    """Stores the conversation, with a title that says that it is recorded, unless it is stored.

    A server on loopback streams the replies from a file in the wire format of OpenAI's chat
    completions, so that everything in the turn is real except the model.
    """
    # Imported late: every command loads this module, and the client library takes a quarter
    # of its start.
    from graphrag.llm.openai_compatible import OpenAICompatibleProvider

    language = services.settings.language
    person = services.local_person()
    question = text("demo_recorded_question", language)
    title = text("demo_recorded_title", language, question=question)
    stored = await services.threads.list(person, graph_key=graph)
    if any(thread.title == title for thread in stored):
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
    """Returns a server that answers each request with the next reply."""

    async def answer(_: Request) -> Response:
        return Response(next(replies) + END, media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
