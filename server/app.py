"""Makes the application: state, middleware, endpoints."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache

from fastapi import APIRouter, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from graphrag.config import Settings
from graphrag.llm.base import LLMProvider
from graphrag.voice.dependencies import RecordedAnswers
from server import (
    agui,
    api_docs,
    error_responses,
    health,
    openai_api,
    pages,
    rest_administration,
    rest_agents,
    rest_ai,
    rest_automation_rules,
    rest_automations,
    rest_clipboard,
    rest_connections,
    rest_find,
    rest_graphs,
    rest_live,
    rest_people,
    rest_pushes,
    rest_review,
    rest_revisions,
    rest_sessions,
    rest_settings,
    rest_threads,
    rest_today,
    rest_whole_graphs,
    rest_workspace,
    sign_in_routes,
    ws,
)
from server.access import Access, Compressed
from server.auth import CLIENT_HEADER
from server.limits import BodyLimit
from server.mcp import http_endpoint
from server.server_state import ServerState
from server.startup import ServerSetup, open_server
from server.voice import media_stream, rest_call_records, webhook

ROUTERS = (
    rest_ai,
    rest_threads,
    agui,
    rest_find,
    rest_graphs,
    rest_clipboard,
    rest_whole_graphs,
    rest_live,
    rest_revisions,
    rest_review,
    rest_workspace,
    rest_today,
    rest_automations,
    rest_automation_rules,
    rest_connections,
    rest_pushes,
    rest_sessions,
    rest_administration,
    rest_agents,
    rest_people,
    openai_api,
    rest_settings,
    rest_call_records,
    webhook,
    media_stream,
    sign_in_routes,
    health,
    ws,
    http_endpoint,
    pages,
    api_docs,
)
"""The modules with endpoints. The bodies of requests and answers are beside their endpoint."""

READ_HEADERS = (
    *("Authorization", "Content-Type", "Accept-Language", "If-Match", "X-Request-ID"),
    CLIENT_HEADER,
)
"""The headers that a page of another origin may send."""

TITLE = "nodius-graphrag"
DESCRIPTION = "Ask and change workflow graphs. Nothing changes before a person approves it."


@cache
def _routes() -> list[BaseRoute]:
    """Returns the endpoints, made once a process: reading their signatures takes 0.7 s."""
    joined = APIRouter()
    for module in ROUTERS:
        joined.include_router(module.router)
    return joined.routes


def create_app(
    settings: Settings,
    *,
    provider: LLMProvider | None = None,
    recorded: RecordedAnswers | None = None,
    stores_records: bool = True,
) -> FastAPI:
    """Returns the application; `running` opens its database and closes it, as its lifespan does.

    `provider` answers in place of the settings' model, and stays open. `recorded` replaces the
    results of tools in calls. With `stores_records=False` graphs are those of the database, and
    records are kept in memory until the end.

    Raises: SettingsError for settings of sign-in or webhooks that cannot work.
    """
    setup = ServerSetup.of(
        settings, provider=provider, recorded=recorded, stores_records=stores_records
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with running(app):
            yield

    app = FastAPI(
        title=TITLE,
        description=DESCRIPTION,
        version="1",
        lifespan=lifespan,
        # The pages that FastAPI would serve load scripts from elsewhere; `api_docs` serves ours.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=_routes(),
    )
    app.state.setup = setup
    error_responses.install(app, [module.router for module in ROUTERS])
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    origins = [origin.strip() for origin in settings.cors_origins.split(",") if origin.strip()]
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=READ_HEADERS,
            expose_headers=["X-Request-ID", "Retry-After"],
        )
    app.add_middleware(Access, metrics=setup.metrics)
    app.add_middleware(Compressed)
    return app


@asynccontextmanager
async def running(app: FastAPI) -> AsyncGenerator[ServerState]:
    """Opens the state of an application, which its endpoints find as `app.state.server`.

    Raises: SettingsError, and the errors of opening the database.
    """
    async with open_server(app.state.setup) as state:
        app.state.server = state
        yield state
