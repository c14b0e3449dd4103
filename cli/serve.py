"""The `serve` command: the web service on this computer, or for others where sign-in is configured."""

from __future__ import annotations

import asyncio
import socket
from typing import Annotated

import typer

from cli import render
from cli.common import EXIT_USAGE, DbOption, LanguageOption, WorkspaceOption, fail, settings_of
from cli.talk import ModelOption, ProviderOption
from graphrag.config import Settings
from graphrag.errors import describe
from graphrag.logs import configure_logs

GRACE_S = 10
"""So long running turns may go on when the server is stopped; then they are stored as stopped."""

MAX_FRAME = 4 * 1024 * 1024
CONNECTIONS = 1000
BACKLOG = 512


def serve(
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen (default: see settings).")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", min=0, max=65535, help="Its port; 0: any free one.")
    ] = None,
    provider: ProviderOption = None,
    model: ModelOption = None,
    db: DbOption = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Serve REST, WebSocket and the page until Ctrl-C. Beyond this computer only with sign-in."""
    settings = settings_of(db, workspace, lang, host=host, port=port, provider=provider, model=model)
    configure_logs(settings.log_level, debug=settings.ai_debug)
    try:
        asyncio.run(_run(settings))
    except KeyboardInterrupt:
        return
    except (typer.Exit, typer.Abort):
        raise
    except Exception as exc:  # the one door: known errors are said, unknown ones re-raised
        known = describe(exc, settings.language)
        if known is None:
            raise
        fail(known.message, code=known.exit_code)


async def _run(settings: Settings) -> None:
    """Serve until a signal. Running turns are finished or stored before the database is closed."""
    import uvicorn  # the service is slow to import, and the other commands do without

    from server.app import create_app
    from server.origin import is_loopback

    app = create_app(settings)
    if not is_loopback(settings.host) and not app.state.server.authenticator.is_configured:
        fail(
            f"{settings.host} can be reached by others, and nobody has to sign in: set NODIUS_AUTH_SECRET,"
            " NODIUS_AUTH_PUBLIC_KEY or NODIUS_AUTH_JWKS, or serve 127.0.0.1",
            code=EXIT_USAGE,
        )
    config = uvicorn.Config(
        app,
        lifespan="off",  # opened here, so that what fails is said as everywhere
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws_max_size=MAX_FRAME,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    with _listening(settings.host, settings.port) as listening:
        async with app.state.server:
            render.line(f"nodius serves {address_of(listening)} (Ctrl-C ends)")
            await uvicorn.Server(config).serve(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """Bind before the database is opened: a port that is taken is said at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
    except OSError as exc:
        fail(f"cannot listen on {host}: {exc.strerror or exc}", code=EXIT_USAGE)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except OSError as exc:
        made.close()
        fail(f"cannot listen on {host} port {port}: {exc.strerror or exc}; --port names another")
    return made


def address_of(listening: socket.socket) -> str:
    """Return the address that a browser opens."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
