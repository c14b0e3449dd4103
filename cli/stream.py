"""The `stream` command: asks a running service over its WebSocket and shows the turn as it happens."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, cast

import orjson
import typer

from cli import render
from cli.chat import read_line
from cli.common import (
    EXIT_FAILED,
    EXIT_NOTHING,
    EXIT_USAGE,
    GraphArgument,
    JsonOption,
    LanguageOption,
    fail,
    settings_of,
)
from cli.diff import print_preview
from cli.turn_display import readable
from graphrag.client.stream import Message, NodiusStream, StreamedTurn
from graphrag.errors import describe as describe_error
from graphrag.i18n import Language
from tools.proposals import MalformedProposal, describe, parse_action

DECISIONS = ("ask", "approve", "reject", "wait", "leave")


def stream(
    graph: GraphArgument,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to ask, in your own words.")],
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="The service (default: as `nodius serve`).")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="File with the token to sign in (-: stdin)."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", "-t", metavar="ID", help="Go on in this conversation.")
    ] = None,
    decide: Annotated[
        str | None,
        typer.Option(
            "--decide",
            metavar="HOW",
            help="What to do with proposals: ask, approve, reject, wait (for a decision made elsewhere) or"
            " leave (default: ask on a terminal, else leave).",
        ),
    ] = None,
    as_json: JsonOption = False,
    lang: LanguageOption = None,
) -> None:
    """Ask a running service and show the answer as it is written. Ctrl-C stops the turn.

    With --json every message of the service is a line, as it came.
    """
    if not question.strip():
        fail("the question is empty", code=EXIT_USAGE)
    settings = settings_of(None, None, lang)
    how = decide or ("ask" if sys.stdin.isatty() and not as_json else "leave")
    if how not in DECISIONS:
        fail(f"--decide is one of {', '.join(DECISIONS)}", code=EXIT_USAGE)
    address = url or f"http://{settings.host}:{settings.port}"
    session = Session(how=how, as_json=as_json, language=settings.language)
    token = None if token_file is None else _read_token(token_file)
    try:
        code = asyncio.run(session.run(NodiusStream(address, token=token), graph, question, thread))
    except KeyboardInterrupt:
        fail("stopped", code=130)
    except (typer.Exit, typer.Abort):
        raise
    except Exception as exc:  # the one door: known errors are said, unknown ones re-raised
        known = describe_error(exc, settings.language)
        if known is None:
            raise
        fail(known.message, code=known.exit_code, details=known.details)
    if code:
        raise typer.Exit(code)


def _read_token(file: Path) -> str:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        fail(f"cannot read the token in {file}: {exc}", code=EXIT_USAGE)
    return text.strip()


class Session:
    """One conversation over the WebSocket, up to its first end without a proposal."""

    def __init__(self, *, how: str, as_json: bool, language: Language) -> None:
        self._how, self._as_json = how, as_json
        self._language: Language = language
        self._in_line = False

    async def run(self, stream: NodiusStream, graph: str, question: str, thread: str | None) -> int:
        """Ask, show, decide; return the exit code."""
        async with stream:
            turn = await stream.chat(graph, question, thread_id=thread)
            while True:
                end = await self._shown(turn)
                if end["type"] == "ai:error":
                    return EXIT_NOTHING if end.get("code") == "not_found" else EXIT_FAILED
                waiting = _document(end["fullText"])
                if waiting is None or end.get("stopped"):
                    return 0
                following = await self._followed(stream, turn, end["threadId"], waiting)
                if following is None:
                    return 0
                turn = following

    async def _shown(self, turn: StreamedTurn) -> Message:
        """Show a turn to its end; Ctrl-C stops the turn at the service."""
        loop, stopping = asyncio.get_running_loop(), set[asyncio.Task[None]]()
        end: Message = {}
        with suppress(NotImplementedError, RuntimeError, ValueError):  # no signals here
            loop.add_signal_handler(signal.SIGINT, lambda: stopping.add(loop.create_task(turn.interrupt())))
        try:
            async for message in turn:
                self._show(message)
                end = message
        finally:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(signal.SIGINT)
            await asyncio.gather(*stopping, return_exceptions=True)
        self._end_line()
        return end

    async def _followed(
        self, stream: NodiusStream, turn: StreamedTurn, thread_id: str, waiting: Message
    ) -> StreamedTurn | None:
        """Return how it goes on after a proposal or at the limit of tools; None: it is left waiting."""
        if waiting["type"] == "tool_limit":
            return await stream.resume(thread_id, approved=False)  # it answers from what it has
        self._show_proposals(waiting.get("approvals", []))
        how = self._how
        if how == "ask":
            answer = read_line("[a]pprove, [r]eject, [w]ait, [l]eave? ")
            letters = {"a": "approve", "r": "reject", "w": "wait"}
            how = letters.get((answer or "").strip().casefold()[:1], "leave")
        if how == "wait":
            render.note("Waiting for a decision elsewhere: the page, or nodius review approve|reject ID.")
            return turn
        if how == "leave":
            render.note(f"Left to be decided: nodius review approve|reject ID (conversation {thread_id}).")
            return None
        return await stream.resume(thread_id, approved=how == "approve")

    def _show_proposals(self, approvals: list[Mapping[str, Any]]) -> None:
        if self._as_json:
            return
        for approval in approvals:
            render.heading(f"{approval['id']}: {self._described(approval['action'])}")
            print_preview(approval["preview"])

    def _described(self, action: Mapping[str, Any]) -> str:
        try:
            return describe(parse_action(action), self._language)
        except MalformedProposal:  # of a newer service
            return str(action.get("type", "?"))

    def _show(self, message: Message) -> None:
        if self._as_json:
            sys.stdout.write(orjson.dumps(message).decode() + "\n")
            sys.stdout.flush()
            return
        match message["type"]:
            case "ai:token":
                render.piece(readable(message["token"]))
                self._in_line = not message["token"].endswith("\n")
            case "ai:tool_start":
                self._end_line()
                render.note(f"[{message['toolName']}]")
            case "ai:apply_action":
                self._end_line()
                render.line(f"✓ applied, the graph is at revision {message.get('revision')}", "green")
            case "ai:error":
                self._end_line()
                render.fault(message["error"])
            case _:
                return

    def _end_line(self) -> None:
        if self._in_line:
            render.line()
            self._in_line = False


def _document(full_text: str) -> Message | None:
    """Return what a turn waits for, None where the text is its answer."""
    try:
        loaded: Any = orjson.loads(full_text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(loaded, dict):
        return None
    document = cast(Message, loaded)
    return document if document.get("type") in ("interrupt", "tool_limit") else None
