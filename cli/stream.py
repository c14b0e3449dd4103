"""The `stream` command: asks a running service over its WebSocket and prints the turn."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import orjson
import typer

from cli import render
from cli.chat import on_interrupt
from cli.command import command
from cli.common import EXIT_FAILED, EXIT_NOTHING
from cli.inputs import check_question, choose, service_of
from cli.options import (
    GraphArgument,
    LanguageOption,
    Printing,
    QuestionArgument,
    ThreadOption,
    TokenFileOption,
    UrlOption,
    option,
)
from cli.question_card import ask_card
from cli.turn_display import TurnView, print_proposal
from graphrag.client.websocket import Message, NodiusStream, StreamedTurn
from graphrag.config import Settings
from graphrag.i18n import Language
from tools.session_tools import QUESTIONS

Decide = Literal["ask", "approve", "reject", "wait", "leave"]
_DECISIONS: Mapping[str, Decide] = {"a": "approve", "r": "reject", "w": "wait", "l": "leave"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions(Printing):
    """The options of a command that uses a running service alone."""

    lang: LanguageOption = None


@command(stopped="stopped")
async def stream(
    common: ServiceOptions,
    settings: Settings,
    graph: GraphArgument,
    question: QuestionArgument,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    thread: ThreadOption = None,
    decide: Annotated[
        Decide | None,
        option(
            "--decide",
            "HOW",
            "How to handle proposals: ask, approve, reject, wait (for a decision made elsewhere) or"
            " leave (default: ask on a terminal, else leave).",
        ),
    ] = None,
) -> None:
    """Ask a running service and show the answer as it is written. Ctrl-C stops the turn.

    With --json every message of the service is printed unchanged, one per line.
    """
    check_question(question)
    how = decide or ("ask" if sys.stdin.isatty() and not common.as_json else "leave")
    address, token = service_of(settings, url, token_file)
    client = NodiusStream(address, token=token)
    asking = Stream(how=how, as_json=common.as_json, language=settings.language)
    code = await asking.run(client, graph, question, thread)
    if code:
        raise typer.Exit(code)


class Stream:
    """One question over the WebSocket, until a turn ends without waiting for a decision."""

    def __init__(self, *, how: Decide, as_json: bool, language: Language) -> None:
        self._how = how
        self._as_json = as_json
        self._view = TurnView(language)

    async def run(self, stream: NodiusStream, graph: str, question: str, thread: str | None) -> int:
        """Asks, shows the answer and decides proposals. Returns the exit code."""
        async with stream:
            features = [QUESTIONS] if self._how == "ask" else None
            turn = await stream.chat(graph, question, thread_id=thread, features=features)
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
        """Shows a turn to its end and returns the last message. Ctrl-C stops it at the service."""
        loop = asyncio.get_running_loop()
        stopping = set[asyncio.Task[None]]()
        end: Message = {}
        with on_interrupt(lambda: stopping.add(loop.create_task(turn.interrupt()))):
            async for message in turn:
                self._show(message)
                end = message
        await asyncio.gather(*stopping, return_exceptions=True)
        self._view.end_line()
        return end

    async def _followed(
        self, stream: NodiusStream, turn: StreamedTurn, thread_id: str, waiting: Message
    ) -> StreamedTurn | None:
        """Returns the turn after a proposal, a question or the limit of tools; None if it is left
        waiting.
        """
        if waiting["type"] == "tool_limit":
            return await stream.resume(thread_id, approved=False)  # it answers without more tools
        if waiting["type"] == "question":
            response = ask_card(waiting["card"])
            return None if response is None else await stream.answer(thread_id, response)
        for one in () if self._as_json else waiting.get("approvals", ()):
            print_proposal(one["id"], one["title"], one["preview"], one["reason"], one["dependsOn"])
        how = self._how
        if how == "ask":
            how = choose("[a]pprove, [r]eject, [w]ait, [l]eave? ", _DECISIONS) or "leave"
        if how == "wait":
            render.note(
                "Waiting for a decision elsewhere: the page, or nodius review approve|reject ID."
            )
            return turn
        if how == "leave":
            render.note(
                f"Not decided yet. To decide: nodius review approve|reject ID (conversation {thread_id})."
            )
            return None
        return await stream.resume(thread_id, approved=how == "approve")

    def _show(self, message: Message) -> None:
        if self._as_json:
            render.json_line(message)
            return
        match message["type"]:
            case "ai:token":
                self._view.token(message["token"])
            case "ai:progress":
                read = message["promptRead"], message["promptTokens"]
                self._view.prompt_read(*read, loading=message.get("loading") is True)
            case "ai:tool_start":
                self._view.tool(message["toolName"])
            case "ai:apply_action":
                self._view.applied(f"applied, the graph is at revision {message.get('revision')}")
            case "ai:error":
                self._view.failed(message["error"])
            case "ai:complete":
                self._view.end_line()
                if message.get("wordsOnly"):
                    self._view.words_only()
                if (claims := message.get("notInGraph")) is not None:
                    self._view.not_in_graph(claims)
            case _:
                return


def _document(full_text: str) -> Message | None:
    """Returns the request that a turn waits for, None if the text is an answer."""
    try:
        loaded: Any = orjson.loads(full_text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(loaded, dict):
        return None
    document = cast(Message, loaded)
    return document if document.get("type") in ("interrupt", "tool_limit", "question") else None
