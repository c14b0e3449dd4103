"""Collects one answer of a model: the text to show, and its tool calls.

Links for clients, such as `{{node:KEY}}`, are checked first: a link to an existing target is kept,
any other is replaced by its words. Other text in double braces (`{{ $json.id }}`) is kept.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import final

from datasources.base import GraphDataSource
from datasources.errors import GraphNotFound
from graphrag.agent.events import Event, TextTakenBack, Token, ToolStarted
from graphrag.agent.requested_calls import Requested
from graphrag.llm import base as llm
from graphrag.llm.model_text import ModelText
from graphrag.llm.written_calls import WrittenCall

log = logging.getLogger(__name__)

KINDS = ("node", "select", "highlight", "fitArea", "sheet", "graph", "html", "nodeConfig", "link")
MARKS = ("runs", "stops")
"""The marks of `{{highlight:MARK|KEYS}}`."""

LIMIT = 4_000  # characters; a longer text in braces is not a link

_KIND = re.compile(rf"\{{\{{[ \t]*({'|'.join(KINDS)})[ \t]*:")
_MAYBE_KIND = re.compile(r"\{\{[ \t]*[A-Za-z]{0,12}[ \t]*")
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?")
_WEB = re.compile(r"(?:https?://|mailto:)[^\s<>\"'{}|]+", re.IGNORECASE)
_BRACES = re.compile(r"[{}]")


_LINK = re.compile(r"\{\{(node|highlight):([^{}]+)\}\}")
_PATH = re.compile(r"\{\{node:[^{}]+\}\}(?:[^{}\n]{0,80}→ ?\{\{node:[^{}]+\}\})+")


def sources_of(answer: str) -> dict[str, list[str]]:
    """Returns the keys of the nodes that an answer is based on, from its links.

    `path`: the longest line of links joined by arrows. `behind`: all nodes that it highlights;
    `runs` and `stops`: those with these marks.
    """
    links = _LINK.findall(answer)
    lines = [_LINK.findall(found[0]) for found in _PATH.finditer(answer)]
    path = max(lines, key=len) if lines else []
    marked = [
        (mark, keys.split(","))
        for kind, body in links
        if kind == "highlight"
        for mark, keys in [_mark(body)]
    ]
    found = {
        "nodes": [body for kind, body in links if kind == "node"],
        "path": [body for _, body in path],
        "behind": [key for _, keys in marked for key in keys],
        **{name: [key for mark, keys in marked if mark == name for key in keys] for name in MARKS},
    }
    return {name: list(dict.fromkeys(keys)) for name, keys in found.items() if keys}


def _mark(body: str) -> tuple[str, str]:
    """Returns the mark and the keys of a highlight."""
    mark, bar, keys = body.partition("|")
    return (mark, keys) if bar and mark in MARKS else ("", body)


@final
class LinkFilter:
    """Passes an answer about a graph on, piece by piece; holds back what may become a link.

    Existing nodes are remembered. `missing`: targets of links to nodes that do not exist.
    """

    def __init__(self, source: GraphDataSource, graph_key: str) -> None:
        self._source = source
        self._graph_key = graph_key
        self._nodes: set[str] = set()
        self._held: str = ""
        self._last: str = ""
        self.missing: list[str] = []

    async def feed(self, text: str, *, final: bool = False) -> str:
        """Takes a piece of text. Returns the text to show so far; all of it with `final`."""
        self._held += text
        shown: list[str] = []
        while self._held and (piece := self._next(final=final)) is not None:
            if not isinstance(piece, str):
                piece = await self._checked(*piece)
            if piece:
                self._last = piece[-1]
                shown.append(piece)
        return "".join(shown)

    def _next(self, *, final: bool) -> str | tuple[str, str] | None:
        """Takes the next piece off the held text: text, or kind and body of a link. None: more is
        needed.
        """
        held = self._held
        start = held.find("{{")
        if start != 0:
            keep = start if start > 0 else len(held) - (held.endswith("{") and not final)
            self._held = held[keep:]
            return held[:keep] or None
        if held.startswith("{{{"):
            return self._off(1)
        kind = _KIND.match(held)
        if kind is None:
            maybe = _MAYBE_KIND.match(held)
            open_end = maybe is not None and maybe.end() == len(held) and len(held) < 40
            return None if open_end and not final else self._off(1)
        body = held[kind.end() : LIMIT]
        ends = [place for place in (body.find(mark) for mark in ("}}", "\n", "{{")) if place >= 0]
        if not ends:
            if len(held) < LIMIT and not final:
                return None
        elif body[min(ends) :].startswith("}}"):
            self._held = held[kind.end() + min(ends) + 2 :]
            return kind.group(1), body[: min(ends)].strip()
        # Broken off: without its braces nothing can make a link of it.
        self._held = held[kind.end() :]
        return self._words(f"{kind.group(1)}:")

    def _off(self, count: int) -> str:
        piece = self._held[:count]
        self._held = self._held[count:]
        return piece

    def _words(self, text: str) -> str:
        """Returns plain text that does not form a link with the text before it."""
        plain = _BRACES.sub("", text).strip() or "?"
        return f"({plain})" if self._last == "{" else plain

    async def _checked(self, kind: str, body: str) -> str:
        good: str | None = None
        words = body
        match kind:
            case "node" | "select" | "highlight":
                mark, body = _mark(body) if kind == "highlight" else ("", body)
                parts = [body] if kind == "node" else body.split(",")
                keys = [key.strip() for key in parts if key.strip()]
                new = [key for key in dict.fromkeys(keys) if key not in self._nodes]
                if new and self._graph_key:
                    found = await self._source.get_nodes_by_key(self._graph_key, new)
                    self._nodes.update(node.key for node in found)
                good = ",".join(key for key in keys if key in self._nodes)
                words = ", ".join(keys)
                self.missing += [key for key in keys if key not in self._nodes]
                good = f"{mark}|{good}" if mark and good else good
            case "fitArea":
                numbers = [part.strip() for part in body.split(",")]
                is_area = len(numbers) == 4 and all(map(_NUMBER.fullmatch, numbers))
                good = ",".join(numbers) if is_area else None
            case "sheet" | "html" if self._graph_key:
                graph = await self._source.get_graph(self._graph_key)
                known = (
                    graph.sheets_list
                    if kind == "sheet"
                    else (graph.to_document().get("htmlKeyLinked"),)
                )
                good = body if body in known else None
            case "graph":
                with suppress(GraphNotFound):
                    await self._source.get_graph(body)
                    good = body
            case "nodeConfig":
                configs = await self._source.get_node_configs()
                good = next(
                    (config.key for config in configs if body in (config.key, config.type)), None
                )
            case "link":
                url, _, label = body.partition("|")
                words = label or url
                good = f"{url}|{_BRACES.sub('', words)}" if _WEB.fullmatch(url.strip()) else None
            case _:
                pass
        return f"{{{{{kind}:{good}}}}}" if good else self._words(words)


MAX_ANSWER_CHARS = 400_000  # of one answer; the rest is not read


@final
class Reply:
    """An answer as far as it was received. `text`: as it was shown, without dead links.

    `words` parses the provider's stream; `taken`: the call ids of the conversation before.
    """

    def __init__(self, links: LinkFilter, words: ModelText, *, taken: Collection[str] = ()) -> None:
        self.text = ""
        self.finish: llm.FinishReason = "unstated"
        self.calls: list[llm.ToolCall] = []
        self.words = words
        self._links = links
        self._taken, self._ids = taken, dict[int, str]()
        self._repeated, self._cut = set[str](), set[str]()
        self._extra = llm.MessageExtra(origin="", fields={})
        self._written = 0

    @property
    def leaked(self) -> bool:
        """Whether text that looked like a tool call was removed."""
        return self.words.leaked

    @property
    def is_empty(self) -> bool:
        """Whether the answer has neither text nor a call."""
        return not self.text.strip() and not self.calls and not self.leaked

    @property
    def missing_nodes(self) -> Sequence[str]:
        """The words of its links to nodes that do not exist."""
        return self._links.missing

    @property
    def is_full(self) -> bool:
        """Whether the answer has reached its maximum length."""
        return self._written > MAX_ANSWER_CHARS

    @property
    def requested(self) -> Requested:
        return Requested(calls=tuple(self.calls), repeated=self._repeated, cut=self._cut)

    @property
    def message(self) -> llm.AssistantMessage:
        came = self._extra
        return llm.AssistantMessage(
            content=self.text, tool_calls=tuple(self.calls), origin=came.origin, extra=came.fields
        )

    async def feed(self, chunk: llm.Chunk) -> list[Event]:
        """Takes a chunk of the provider. Returns the events to show."""
        if isinstance(chunk, llm.TextDelta | llm.ReasoningDelta):
            self._written += len(chunk.text)
        return [event for each in self.words.feed(chunk) for event in await self._take(each)]

    async def _take(self, chunk: llm.Chunk) -> list[Event]:
        match chunk:
            case llm.TextDelta():
                return self._shown(await self._links.feed(chunk.text))
            case llm.TextWasThinking():
                self.text = ""
                await self._links.feed("", final=True)
                return [TextTakenBack()]
            case llm.ToolCallStarted():
                return self._started(chunk.index, chunk.id, chunk.name)
            case llm.ToolCallReady() | llm.ToolCallCut():
                started = self._started(chunk.index, chunk.call.id, chunk.call.name)
                call_id = self._ids[chunk.index]
                self.calls.append(replace(chunk.call, id=call_id))
                if isinstance(chunk, llm.ToolCallCut):
                    self._cut.add(call_id)
                return started
            case llm.ToolCallSetAside():
                log.info("tool_call_set_aside", extra={"chars": len(chunk.call.arguments)})
            case llm.MessageExtra():
                self._extra = chunk
            case llm.PromptRead():
                return [chunk]
            case llm.Finished():
                self.finish = chunk.reason
            case _:
                pass  # tokens, and tools that the provider ran
        return []

    async def end(self) -> list[Event]:
        """Returns the held text, and the calls that were written as text."""
        events: list[Event] = []
        for chunk in self.words.end(is_cut=self.is_full):
            events += await self._take(chunk)
        if self.is_full:
            self.finish = "length"
        return [*events, *self._shown(await self._links.feed("", final=True))]

    async def broken(self) -> list[Event]:
        """Returns the held text of an answer that broke off; a call in it is not run."""
        events: list[Event] = []
        for chunk in self.words.end(is_cut=True):
            if isinstance(chunk, llm.TextDelta | llm.TextWasThinking):
                events += await self._take(chunk)
        return [*events, *self._shown(await self._links.feed("", final=True))]

    def take_described(self, calls: Sequence[WrittenCall]) -> list[Event]:
        """Replaces the text by the calls that it describes. Returns the events to show."""
        self.text = ""
        events: list[Event] = [TextTakenBack()]
        for number, written in enumerate(calls):
            call = llm.ToolCall(id="", name=written.name, arguments=written.arguments)
            events += self._started(number, call.id, call.name)
            self.calls.append(replace(call, id=self._ids[number]))
        return events

    def _shown(self, text: str) -> list[Event]:
        self.text += text
        return [Token(text=text)] if text else []

    def _started(self, index: int, call_id: str, name: str) -> list[Event]:
        """Gives a call its id in this conversation. Returns its event, once a call."""
        if index in self._ids:
            return []
        given = llm.free_id(call_id, {*self._taken, *self._ids.values()})
        if given != call_id and call_id:
            self._repeated.add(given)
        self._ids[index] = given
        return [ToolStarted(call_id=given, name=name)]
