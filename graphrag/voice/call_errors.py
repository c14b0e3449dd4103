"""Why a telephone call cannot be begun, joined, read or ended; sentences in the catalogues.

CallError ├── CallNotFound      no such call in this workspace (id) ├── CallForbidden     the
person's role does not reach so far ├── CallsFull         the agent, this server or the caller has
all the calls it may have, or the server stops ├── CallEnded         the call is over (id) ├──
CallOpen          the call is not over (id) └── StreamRefused     the stream's token is not of a
call that waits for one AgentInChatOnly       its document does not name the channel (an AgentError:
id) CallBlocked           a check of the document refuses this caller (an AgentBlocked)
"""

from __future__ import annotations

from graphrag.agents.errors import AgentBlocked, AgentError
from graphrag.i18n import LocalizedError


class CallError(LocalizedError, fact_chars=500):
    """Base of what telephone calls raise on purpose."""


class CallNotFound(CallError): ...


class CallForbidden(CallError): ...


class CallsFull(CallError): ...


class CallEnded(CallError): ...


class CallOpen(CallError): ...


class StreamRefused(CallError): ...


class AgentInChatOnly(AgentError): ...


class CallBlocked(AgentBlocked, code="AgentBlocked"):
    """`message` is to be said, "" for nothing; `voice` and `language` are Twilio's for it."""

    def __init__(self, *, message: str, voice: str | None, language: str) -> None:
        super().__init__(message=message)
        self.voice = voice
        self.language = language
