"""The tools that concern the session itself: ask the person, finish a run. They read and change no graph.

Running one checks what the model wrote and returns it as `data`; the agent does what it says.
"""

from __future__ import annotations

from typing import Any

from tools.base import Tool
from tools.session_tools.automation_tools import FINISH_AUTOMATION, FinishAutomation, refresh_embeddings
from tools.session_tools.questions import ASK_PERSON, QUESTIONS, AskPerson, Response, WrongResponse

SESSION_TOOLS: tuple[Tool[Any], ...] = (ASK_PERSON, FINISH_AUTOMATION)

__all__ = [
    "ASK_PERSON",
    "FINISH_AUTOMATION",
    "QUESTIONS",
    "SESSION_TOOLS",
    "AskPerson",
    "FinishAutomation",
    "Response",
    "WrongResponse",
    "refresh_embeddings",
]
