"""Errors of the server room: why a request is refused before it reaches the service.

ServerError
├── AuthError            nobody, or somebody whose token is not good; `code` says why
├── KeysUnavailable      the keys that check tokens cannot be read
├── ForeignPage          a page of another site calls a server without sign-in
├── SignatureRefused     a request in the name of the telephone service is not signed by it
├── RoleNeeded           this person's role does not allow it
├── KeyNotFound          there is no such key of a program here
├── KeyNotMade           a key of a program for somebody or workspaces that it cannot be for
├── OperatorNeeded       only an admin of the workspace of the settings may do this
├── BackupNotFound       no backup was made since the server started
├── WebhookNotFound      there is no such request of the service itself here
├── WebhookBusy          it is being sent just now
├── ModelNotFound        no graph and no agent has the name that a client of the OpenAI API gives
├── WorkspaceUnclear     the person has several workspaces and named none
├── RequestTooLarge      more bytes than are taken
├── RequestTooSlow       a body does not come on, after so many seconds
├── ServerFull           too many large requests are read at once
├── NodeTypesNotLive     node types are not edited live here
├── TooManyRequests      this person asks models too often
├── TurnStopped          the server ends, or the client is gone; the thread is valid
└── TurnBroken           the turn began and failed; the thread is valid
"""

from __future__ import annotations

from graphrag.agent.events import TurnFault
from graphrag.i18n import Language, LocalizedError


class ServerError(LocalizedError):
    """Base of what this room raises on purpose. `code` names the text that a person reads."""


class AuthError(ServerError):
    def __init__(self, *, code: str, claim: str = "") -> None:
        self.code = code
        self.claim = claim
        super().__init__(claim=claim)


class KeysUnavailable(ServerError): ...


class ForeignPage(ServerError): ...


class SignatureRefused(ServerError): ...


class RoleNeeded(ServerError): ...


class KeyNotFound(ServerError): ...


class KeyNotMade(ServerError): ...


class OperatorNeeded(ServerError):
    def __init__(self, *, workspace: str) -> None:
        super().__init__(workspace=workspace)


class BackupNotFound(ServerError): ...


class WebhookNotFound(ServerError): ...


class WebhookBusy(ServerError): ...


class ModelNotFound(ServerError): ...


class WorkspaceUnclear(ServerError): ...


class RequestTooLarge(ServerError): ...


class RequestTooSlow(ServerError): ...


class ServerFull(ServerError):
    """The bodies that are being read take all the memory that is meant for them."""

    retry_after_s = 2


class NodeTypesNotLive(ServerError): ...


class TooManyRequests(ServerError):
    """`wait_s`: whole seconds after which it is worth trying again."""

    def __init__(self, *, retry_after_s: float) -> None:
        self.retry_after_s, self.wait_s = retry_after_s, max(1, -int(-retry_after_s // 1))
        super().__init__(seconds=self.wait_s)


class TurnStopped(ServerError): ...


class TurnBroken(ServerError):
    def __init__(self, *, thread_id: str, fault: TurnFault) -> None:
        self.thread_id = thread_id
        self.fault = fault
        super().__init__()

    def text(self, language: Language) -> str:
        return self.fault.message(language)  # `server.error_responses` takes addresses out
