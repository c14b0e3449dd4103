"""Why a telephone call cannot be begun, joined, read or ended; sentences in the catalogues.

CallError
├── CallNotFound      no such call in this workspace
├── CallForbidden     the person's role does not reach so far
├── CallsFull         the agent or this server has all the calls it may have, or the server is stopping
├── CallEnded         the call is over
├── CallOpen          the call is not over
└── StreamRefused     the stream's token is not of a call that waits for one
AgentInChatOnly       its document does not name the channel (an AgentError)
CallBlocked           a check of the document refuses this caller (an AgentBlocked)
"""

from __future__ import annotations

from graphrag.agents.errors import AgentBlocked, AgentError
from graphrag.i18n import LocalizedError


class CallError(LocalizedError):
    """Base of what telephone calls raise on purpose."""


class _OneCallError(CallError):
    def __init__(self, *, call_id: str) -> None:
        super().__init__(id=call_id[:80])


class CallNotFound(_OneCallError): ...


class CallForbidden(CallError): ...


class CallsFull(CallError): ...


class CallEnded(_OneCallError): ...


class CallOpen(_OneCallError): ...


class StreamRefused(CallError): ...


class AgentInChatOnly(AgentError):
    def __init__(self, *, agent_id: str) -> None:
        super().__init__(id=agent_id[:80])


class CallBlocked(AgentBlocked):
    """`message` is to be said, "" for nothing; `voice` and `language` are Twilio's for it."""

    code = "AgentBlocked"

    def __init__(self, *, message: str, voice: str | None, language: str) -> None:
        super().__init__(message=message)
        self.voice, self.language = voice, language
