"""Prints a turn while it runs: text, tools and proposals."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from cli import render
from cli.diff import print_preview
from graphrag.agent import events as agent_events
from graphrag.approvals import Approval, title
from graphrag.i18n import Language
from graphrag.i18n import text as text_of

_LINK = re.compile(
    r"\{\{(node|select|highlight|fitArea|sheet|graph|html|nodeConfig|link):(.*?)\}\}"
)


def readable(text: str) -> str:
    """Returns an answer with its client links as words. A link that only marks nodes that the
    answer names is removed.
    """
    named: set[str] = {body for kind, body in _LINK.findall(text) if kind == "node"}
    return _LINK.sub(lambda link: _words(link, named), text)


def _words(link: re.Match[str], named: set[str]) -> str:
    kind, body = link.groups()
    if kind == "link":
        url, _, label = body.partition("|")
        return f"{label} <{url}>" if label and label != url else url
    if kind == "highlight":
        body = body.rpartition("|")[2]  # `runs|a,b`: the text has the state
    repeats = kind == "highlight" and named.issuperset(body.split(","))
    return "" if repeats else f"[{body}]" if kind == "fitArea" else body


class TurnView:
    """Prints the events of turns and collects them in `events`. `quiet` prints nothing."""

    def __init__(self, language: Language, *, quiet: bool = False) -> None:
        self.language: Language = language
        self.quiet = quiet
        self.events: list[agent_events.Event] = []
        self._in_line = False

    async def show(self, events: AsyncGenerator[agent_events.Event]) -> agent_events.Ending | None:
        """Prints the events of a turn and returns its end, None if it has no event for it."""
        ending: agent_events.Ending | None = None
        async with aclosing(events) as stream:
            async for event in stream:
                self.events.append(event)
                if not self.quiet:
                    self._print(event)
                if isinstance(event, agent_events.Ending):
                    ending = event
        self.end_line()
        return ending

    def end_line(self) -> None:
        """Ends the line of the answer that is being printed, if any."""
        if self._in_line:
            render.line()
            self._in_line = False

    def _print(self, event: agent_events.Event) -> None:
        match event:
            case agent_events.Token():
                self.token(event.text)
            case agent_events.TextTakenBack():
                self.end_line()
            case agent_events.PromptRead():
                self.prompt_read(event.done, event.total, loading=event.loading)
            case agent_events.ToolStarted():
                self.tool(event.name)
            case agent_events.ToolFinished():
                just_applied = len(self.events) > 1 and isinstance(
                    self.events[-2], agent_events.ActionApplied
                )
                if event.is_error or (event.name.startswith("propose_") and not just_applied):
                    self.tool(event.name, event.result_text)
            case agent_events.ActionApplied():
                self.applied(title(event.approval, self.language))
            case agent_events.Failed():
                self.failed(event.fault.message(self.language), event.fault.details)
            case agent_events.TurnStarted(words_only=True):
                self.words_only()
            case agent_events.Completed(not_in_graph=claims) if claims is not None:
                self.not_in_graph(claims)
            case (
                agent_events.TurnStarted() | agent_events.UsageReported() | agent_events.Completed()
            ):
                pass
            case (
                agent_events.ProposalPending()
                | agent_events.ToolLimit()
                | agent_events.QuestionAsked()
            ):
                pass

    def token(self, text: str) -> None:
        """Prints a part of the answer."""
        text = text if self._in_line else text.lstrip("\n")
        render.piece(readable(text))
        self._in_line = not text.endswith("\n") if text else self._in_line

    def prompt_read(self, done: int, total: int, *, loading: bool = False) -> None:
        if loading:
            self.end_line()
            render.note(text_of("model_loading", self.language))
        elif done < total:
            self.end_line()
            facts = {"done": f"{done:,}", "total": f"{total:,}"}
            render.note(text_of("prompt_read", self.language, **facts))

    def tool(self, name: str, result: str | None = None) -> None:
        """Prints the name of a tool that is called, and the first line of a result."""
        self.end_line()
        render.note(f"[{name}]" if result is None else f"[{name}] {result.splitlines()[0][:300]}")

    def applied(self, text: str) -> None:
        self.end_line()
        render.line(f"✓ {text}", "green")

    def failed(self, text: str, details: str = "") -> None:
        self.end_line()
        render.fault(text)
        if details:
            render.note(f"  {details}")

    def not_in_graph(self, claims: Mapping[str, Any]) -> None:
        """Prints the claims of the answer about nodes and edges that the graph does not have."""
        self.end_line()
        render.fault(str(claims["note"]))

    def words_only(self) -> None:
        """Prints that the embedding service failed, so that the search used words only."""
        render.note(text_of("words_only", self.language))

    def usage(self) -> str:
        """Returns one line with the tokens and cost of these turns, "" without a model."""
        used = [event for event in self.events if isinstance(event, agent_events.UsageReported)]
        prompt = sum(u.prompt for u in used)
        completion = sum(u.completion for u in used)
        if not prompt + completion:
            return ""
        about = "about " if any(u.estimated for u in used) else ""
        costs = [u.cost_usd for u in used if u.cost_usd is not None]
        price = f", ${sum(costs):.4f}" if sum(costs) else ""
        price = price if len(costs) == len(used) else ", cost unknown"
        return f"{about}{prompt:,} + {completion:,} tokens in {len(used)} model calls{price}"


def show_proposal(approval: Approval, language: Language) -> None:
    """Prints the changes of a proposal and its reason."""
    print_proposal(
        approval.id,
        title(approval, language),
        approval.preview,
        approval.reason,
        approval.depends_on,
    )


def print_proposal(
    id_: str,
    title: str,
    preview: Mapping[str, Any],
    reason: str = "",
    depends_on: Sequence[str] = (),
) -> None:
    """Prints a proposal; see `show_proposal`."""
    render.heading(f"{id_}: {title}")
    if reason:
        render.quote("  why: ", reason)
    if depends_on:
        render.line(f"  builds on: {', '.join(depends_on)}")
    print_preview(preview)
