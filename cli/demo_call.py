"""The last part of the `demo` command: a simulated telephone call, with an interruption, as a transcript."""

from __future__ import annotations

from functools import partial
from typing import Any

from cli import render
from cli.call_display import show_call
from cli.call_service import call_here
from cli.common import run_coroutine
from graphrag.config import Settings
from graphrag.i18n import Language
from graphrag.voice.simulation.call_script import CallScript
from graphrag.voice.simulation.fast_loop import run_fast
from mock_data import load_json

DOCUMENT = "agents/helpdesk.json"
SPEED = 20.0
HEARD_S = 4.0
"""So long the caller listens to the answer before they interrupt it."""
WORDS: dict[Language, tuple[str, str, str]] = {
    "en": ("Hello, which workflow is it about?", "Thank you, that is all.", "Goodbye!"),
    "fr": ("Bonjour, de quel workflow s’agit-il ?", "Merci, c’est tout.", "Au revoir !"),
}


def call_the_helpdesk(settings: Settings, graph: str, question: str) -> None:
    """Call the sample agent, ask, interrupt its answer and hang up; the agent is gone afterwards."""
    document: dict[str, Any] = load_json(DOCUMENT)
    document |= {"graphs": [graph]}
    document["agent"]["language"] = settings.language
    greeting, thanks, goodbye = WORDS[settings.language]
    replies: list[Any] = [{"says": goodbye}]
    script = CallScript.model_validate(
        {
            "name": "demo",
            "language": settings.language,
            "api": "demo",
            "greeting": greeting,
            "steps": [
                {"wait": "answer"},
                {"say": question},
                {"say": thanks, "interrupt_after_s": HEARD_S, "replies": replies},
                {"wait": "answer"},
                {"hangup": True},
            ],
        }
    )
    work = call_here(settings, "helpdesk", script, document=document)
    try:
        made = run_coroutine(work, settings.language, runs=partial(run_fast, speed=SPEED))
    except OSError as exc:
        render.note(f"left out: no socket of this machine can be used ({exc})")
        return
    show_call(made.document)
    render.note(f"{made.recording.length_ms / 1000:.0f} seconds on the line; nobody had to wait for them.")
