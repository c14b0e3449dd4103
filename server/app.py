"""Puts the service together: state, middleware, endpoints."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware

from graphrag.config import Settings
from graphrag.llm.base import LLMProvider
from graphrag.voice.call_tools import RecordedAnswers
from server import (
    error_responses,
    health,
    pages,
    rest_agents,
    rest_ai,
    rest_automations,
    rest_blocks,
    rest_calls,
    rest_graphs,
    rest_live,
    rest_people,
    rest_review,
    rest_sessions,
    ws,
)
from server.access import Access
from server.limits import BodyLimit
from server.server_state import ServerState
from server.voice import media_stream, rest_call_records, webhook

ROUTERS = (
    rest_ai,
    rest_blocks,
    rest_graphs,
    rest_live,
    rest_review,
    rest_automations,
    rest_sessions,
    rest_agents,
    rest_people,
    rest_calls,
    rest_call_records,
    webhook,
    media_stream,
    health,
    ws,
    pages,
)
"""The modules with endpoints: a new endpoint stands in one of them, its bodies beside it."""

TITLE = "nodius-graphrag"
DESCRIPTION = "Ask and change workflow graphs. Nothing changes before a person approves it."


def create_app(
    settings: Settings, *, provider: LLMProvider | None = None, recorded: RecordedAnswers | None = None
) -> FastAPI:
    """Return the application; its lifespan opens the database and closes it. `provider` stays open.

    `recorded`: what answers in place of the tools of calls.

    Raises: SettingsError for keys of sign-in that are none.
    """
    state = ServerState(settings, provider=provider, recorded=recorded)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with state:
            yield

    app = FastAPI(
        title=TITLE,
        description=DESCRIPTION,
        version="1",
        lifespan=lifespan,
        # The pages that FastAPI would serve load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.server = state
    error_responses.install(app, [module.router for module in ROUTERS])
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    origins = [origin.strip() for origin in settings.cors_origins.split(",") if origin.strip()]
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Accept-Language", "If-Match", "X-Request-ID"],
            expose_headers=["X-Request-ID", "Retry-After"],
        )
    app.add_middleware(Access, metrics=state.metrics)
    for module in ROUTERS:
        app.include_router(module.router)
    return app
