"""The commands `serve` (the web service) and `mcp` (an MCP server over standard input)."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import webbrowser
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated

from cli import render
from cli.command import command
from cli.common import exit_codes, fail, usage_error
from cli.first_sign_in import with_kept_secret
from cli.options import Common, WithModel, option
from graphrag.asgi_server import served_on
from graphrag.config import Settings
from graphrag.llm.base import LLMProvider
from graphrag.logs import configure_logs
from graphrag.voice.dependencies import RecordedAnswers
from tools.base import Role
from tools.http.addresses import is_loopback

BACKLOG = 512


@command(json=False)
def serve(
    common: WithModel,
    host: Annotated[
        str | None, option("--host", "ADDRESS", "Address to listen on (default: see settings).")
    ] = None,
    port: Annotated[
        int | None, option("--port", "N", "Port to listen on; 0: any free one.", min=0, max=65535)
    ] = None,
    forwarded_allow_ips: Annotated[
        str | None,
        option("--forwarded-allow-ips", "LIST", "Proxies whose forwarded headers are trusted."),
    ] = None,
    keep_secret: Annotated[
        Path | None,
        option(
            "--keep-secret", "FILE", "Without sign-in: make a secret in FILE, and print a link."
        ),
    ] = None,
) -> None:
    """Serve the page, REST and WebSocket until Ctrl-C. Other computers need sign-in."""
    settings = common.settings(host=host, port=port, forwarded_allow_ips=forwarded_allow_ips)
    token = None
    if keep_secret is not None:
        try:
            settings, token = with_kept_secret(settings, keep_secret, _note_to_copy)
        except OSError as exc:
            usage_error(f"the secret cannot be kept in {keep_secret}: {exc.strerror or exc}")

    def said(address: str) -> None:
        _say(address)
        if token is not None:
            page = settings.public_url or address
            link = f"{page.rstrip('/')}/#invite={token}"
            render.line(f"sign in as an admin within 12 hours: {link}", copied=True)

    serve_settings(settings, on_ready=said)


def _note_to_copy(text: str) -> None:
    render.note(text, copied=True)


def serve_settings(
    settings: Settings, *, on_ready: Callable[[str], None] | None = None, any_port: bool = False
) -> None:
    """Serves until a signal. `on_ready` is called with the page's address. Ends the program if it
    cannot listen; with `any_port` it takes another port if this one is in use.
    """
    from server.run import run  # slow to import

    configure_logs(settings.log_level, debug=settings.ai_debug)
    with suppress(KeyboardInterrupt), exit_codes(settings.language, stopped=None):
        run(_run(settings, on_ready or _say, any_port=any_port))


def _say(address: str) -> None:
    render.line(f"nodius serves its page at {address} (Ctrl-C ends)", copied=True)


async def _run(settings: Settings, on_ready: Callable[[str], None], *, any_port: bool) -> None:
    """Serves until a signal. Ends the program if others could connect without sign-in."""
    from server.app import create_app
    from server.run import run_server

    app = create_app(settings)
    if not is_loopback(settings.host) and not app.state.setup.token_keys.is_configured:
        usage_error(
            f"{settings.host} can be reached by others without signing in: set NODIUS_AUTH_SECRET,"
            " NODIUS_AUTH_PUBLIC_KEY or NODIUS_AUTH_JWKS, or serve 127.0.0.1"
        )
    with _listening(settings.host, settings.port, any_port=any_port) as listening:
        address = address_of(listening)
        await run_server(app, listening, lambda: on_ready(address))


@asynccontextmanager
async def served_here(
    settings: Settings,
    listening: socket.socket,
    recorded: RecordedAnswers | None = None,
    stores_records: bool = True,
    provider: LLMProvider | None = None,
) -> AsyncGenerator[None]:
    """Serves on a listening socket until the block ends. `recorded` answers in place of the tools
    of calls, `provider` in place of the model of the settings. With `stores_records=False` graphs
    are read, and nothing is stored.
    """
    from server.app import create_app, running
    from server.run import config_of

    app = create_app(settings, provider=provider, recorded=recorded, stores_records=stores_records)
    async with running(app), served_on(config_of(app, grace_s=1), listening):
        yield


def _listening(host: str, port: int, *, any_port: bool = False) -> socket.socket:
    """Returns a listening socket. It is bound before the database is opened, so that a port in use
    is reported at once.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as exc:
        usage_error(f"cannot listen on {host}: {exc.strerror or exc}")
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as exc:
        listening.close()
        if any_port and port:
            return _listening(host, 0)
        fail(f"cannot listen on {host} port {port}: {exc.strerror or exc}; --port names another")
    return listening


def address_of(listening: socket.socket) -> str:
    """Returns the address for a browser."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def has_screen() -> bool:
    """Returns whether a window can be shown. A browser in the terminal does not count."""
    if sys.platform in ("darwin", "win32"):
        return True
    # X11 and Wayland name the screen to every program in these variables.
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_page(address: str) -> bool:
    """Opens the address in a browser. Returns whether there is one."""
    if not has_screen():
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


@command(json=False)
def mcp(
    common: Common,
    graph: Annotated[
        str | None, option("--graph", "GRAPH", "The graph of calls that name none.")
    ] = None,
    role: Annotated[
        Role, option("--role", "ROLE", "viewer reads; editor also proposes.")
    ] = "editor",
) -> None:
    """Serve the graphs to an agent that speaks MCP, over standard input and output."""
    from server.mcp.stdio_server import serve_stdio  # slow to import

    settings = common.settings()
    configure_logs(settings.log_level, debug=settings.ai_debug)
    with exit_codes(settings.language, stopped=None):
        asyncio.run(serve_stdio(settings, role=role, graph=graph))
