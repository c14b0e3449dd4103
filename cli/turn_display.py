"""Shows a turn on a terminal as it happens: text, tools, proposals; decides nothing."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing

from cli import render
from cli.diff import print_preview
from graphrag.agent.events import (
    ActionApplied,
    Completed,
    Event,
    Failed,
    PromptRead,
    ProposalPending,
    Token,
    ToolFinished,
    ToolLimit,
    ToolStarted,
    TurnStarted,
    UsageReported,
)
from graphrag.approvals import Approval, title
from graphrag.i18n import Language, message

_LINK = re.compile(r"\{\{(node|select|highlight|fitArea|sheet|graph|html|nodeConfig|link):(.*?)\}\}")

Ending = Completed | ProposalPending | ToolLimit | Failed


def readable(text: str) -> str:
    """Return an answer with its client links as words."""
    return _LINK.sub(_words, text)


def _words(link: re.Match[str]) -> str:
    kind, body = link.groups()
    if kind == "link":
        url, _, label = body.partition("|")
        return f"{label} <{url}>" if label and label != url else url
    return f"[{body}]" if kind == "fitArea" else body


class TurnView:
    """Prints the events of turns; remembers what was used. `quiet` prints nothing."""

    def __init__(self, language: Language, *, quiet: bool = False) -> None:
        self.language: Language = language
        self.quiet = quiet
        self.events: list[Event] = []
        self._in_line = False

    async def show(self, events: AsyncGenerator[Event]) -> Ending | None:
        """Print what comes and return how the turn ended; None if it ended without a word."""
        ending: Ending | None = None
        async with aclosing(events) as stream:
            async for event in stream:
                self.events.append(event)
                if not self.quiet:
                    self._print(event)
                if isinstance(event, Ending):
                    ending = event
        self.end_line()
        return ending

    def end_line(self) -> None:
        """Begin a new line if one is under way."""
        if self._in_line:
            render.line()
            self._in_line = False

    def _print(self, event: Event) -> None:
        match event:
            case Token():
                text = event.text if self._in_line else event.text.lstrip("\n")
                render.piece(readable(text))
                self._in_line = not text.endswith("\n") if text else self._in_line
            case PromptRead():
                if event.done < event.total:
                    self.end_line()
                    facts = {"done": f"{event.done:,}", "total": f"{event.total:,}"}
                    render.note(message("prompt_read", self.language).format(**facts))
            case ToolStarted():
                self.end_line()
                render.note(f"[{event.name}]")
            case ToolFinished():
                self.end_line()
                just_applied = len(self.events) > 1 and isinstance(self.events[-2], ActionApplied)
                if event.is_error or (event.name.startswith("propose_") and not just_applied):
                    render.note(f"[{event.name}] {event.result_text.splitlines()[0][:300]}")
            case ActionApplied():
                self.end_line()
                render.line(f"✓ {title(event.approval, self.language)}", "green")
            case Failed():
                self.end_line()
                render.fault(event.fault.message(self.language))
                if event.fault.details:
                    render.note(f"  {event.fault.details}")
            case TurnStarted(words_only=True):
                render.note(message("words_only", self.language))
            case TurnStarted() | UsageReported() | Completed() | ProposalPending() | ToolLimit():
                pass

    def usage(self) -> str:
        """Return one line on what the models of these turns used."""
        used = [event for event in self.events if isinstance(event, UsageReported)]
        prompt, completion = sum(u.prompt for u in used), sum(u.completion for u in used)
        if not prompt + completion:
            return ""
        about = "about " if any(u.estimated for u in used) else ""
        costs = [u.cost_usd for u in used if u.cost_usd is not None]
        price = f", ${sum(costs):.4f}" if costs and sum(costs) else ""
        return f"{about}{prompt:,} + {completion:,} tokens in {len(used)} model calls{price}"


def show_proposal(approval: Approval, language: Language) -> None:
    """Print what a proposal would change, and why."""
    render.heading(f"{approval.id}: {title(approval, language)}")
    if approval.reason:
        render.said("  why: ", approval.reason)
    if approval.depends_on:
        render.line(f"  builds on: {', '.join(approval.depends_on)}")
    print_preview(approval.preview)
