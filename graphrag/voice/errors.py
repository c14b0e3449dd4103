"""Errors of telephone calls. Their texts are in the catalogues.

CallError
├── CallNotFound     the workspace has no such call (id)
├── CallForbidden    the role of the person is not sufficient
├── CallsFull        the agent, server or caller has its maximum of calls, or the server stops
├── CallEnded        the call is over (id)
├── CallOpen         the call is not over (id)
└── StreamRefused    the token of the stream belongs to no ringing call
NoBrowserTalk        the agent's calls have no sound here: engine `text` (an AgentError; id)
AgentInChatOnly      the agent document does not name the channel (an AgentError; id)
CallBlocked          a check of the agent document refuses this caller (an AgentBlocked)
"""

from __future__ import annotations

from graphrag.agents.errors import AgentBlocked, AgentError
from graphrag.i18n import LocalizedError


class CallError(LocalizedError, fact_chars=500):
    """Base class of errors of telephone calls."""


class CallNotFound(CallError): ...


class CallForbidden(CallError): ...


class CallsFull(CallError): ...


class CallEnded(CallError): ...


class CallOpen(CallError): ...


class StreamRefused(CallError): ...


class AgentInChatOnly(AgentError): ...


class NoBrowserTalk(AgentError): ...


class CallBlocked(AgentBlocked, code="AgentBlocked"):
    """Raised when a check refuses the caller.

    `message` is spoken to the caller unless it is empty, with Twilio's `voice` and `language`.
    """

    def __init__(self, *, message: str, voice: str | None, language: str) -> None:
        super().__init__(message=message)
        self.voice = voice
        self.language = language
