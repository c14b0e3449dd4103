"""Errors of declarative agents, their conversations and deliveries; sentences in the catalogues.

Facts are in brackets; `version` 0: there is no such agent; sizes in bytes.

AgentError
├── AgentNotFound       no such agent or version in this workspace (agent_id, version)
├── AgentToolNotFound   the agent has no such tool, or none with a request (agent_id, tool)
├── AgentTryFailed      the values of a trial make no request of the tool (tool)
├── AgentChanged        another version was stored since it was read (agent_id, version)
├── AgentTooLarge       a document, or data with it, is too large (size, limit)
├── TooManyAgents       the workspace has its maximum of agents (limit)
├── InvalidAgent        the document, or what it refers to, is invalid; `errors` say where
├── AgentStateRefused   the request does not fit the agent's state (agent_id, state, asked)
├── AgentNotRunning     no conversation begins with it now (agent_id, state)
├── AgentBlocked        a check of the document refuses this caller
├── AgentSessionFailed  its instructions could not be fetched (agent_id)
├── AgentNotInChat      its document answers on other channels only (agent_id)
├── AgentGraphUnknown   it reads other graphs, or none
├── CallerForbidden     a viewer may not speak on behalf of a caller's number
├── CallerTooLate       a caller's number is given with the first message only
├── ThreadOfOtherAgent  the conversation has another agent, or none (thread_id, agent_id)
├── ThreadWithoutAgent  the request is for conversations with an agent (thread_id)
├── ThreadEnded         the conversation has ended (thread_id)
├── DeliveryNotFound    no such delivery in this workspace (delivery_id)
├── DeliveryRefused     the delivery is done or being sent (delivery_id, status)
└── AgentListRefused    a list of agents is unusable; nothing was changed (source)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from graphrag.i18n import Language, LocalizedError
from tools.http.problems import DocumentProblem

MAX_PROBLEMS = 50
_SHOWN = 3


class AgentError(LocalizedError, fact_chars=500):
    """Base of the errors of declarative agents. `facts`: the values in its sentence."""


class _WithReason(AgentError):
    """`reason`: the problem, in English in every language."""

    def __init__(self, *, reason: str, **facts: Any) -> None:
        self.reason = reason
        super().__init__(**facts)

    def details(self, language: Language) -> str:  # noqa: ARG002
        return self.reason


@final
class AgentNotFound(AgentError):
    def __init__(self, *, agent_id: str, version: int | None = None) -> None:
        super().__init__(agent_id=agent_id, version=version or 0)
        self.code = "AgentNotFound" if version is None else "no_agent_version"


@final
class AgentToolNotFound(AgentError): ...


@final
class AgentTryFailed(_WithReason): ...


@final
class AgentChanged(AgentError): ...


@final
class AgentTooLarge(AgentError): ...


@final
class TooManyAgents(AgentError): ...


@final
class InvalidAgent(AgentError):
    def __init__(
        self, *, errors: Sequence[DocumentProblem], warnings: Sequence[DocumentProblem] = ()
    ) -> None:
        self.errors, self.warnings = tuple(errors)[:MAX_PROBLEMS], tuple(warnings)[:MAX_PROBLEMS]
        super().__init__(n=len(self.errors))

    def text(self, language: Language) -> str:
        shown = "; ".join(
            ": ".join(filter(None, (each.where, each.what))) for each in self.errors[:_SHOWN]
        )
        return f"{super().text(language)}: {shown}" if shown else super().text(language)


@final
class AgentStateRefused(AgentError): ...


@final
class AgentNotRunning(AgentError): ...


class AgentBlocked(AgentError):
    """`message`: the words of the check that refused, or "" for our own."""

    def __init__(self, *, message: str) -> None:
        self.message = message
        super().__init__(message=message)

    def text(self, language: Language) -> str:
        return self.message or super().text(language)


@final
class AgentSessionFailed(AgentError): ...


@final
class AgentNotInChat(AgentError): ...


@final
class AgentGraphUnknown(AgentError):
    """`graphs`: those that the agent reads."""

    def __init__(self, *, agent_id: str, graphs: Sequence[str]) -> None:
        super().__init__(agent_id=agent_id, graphs=", ".join(graphs))
        self.code = "agent_reads_graphs" if graphs else "agent_reads_none"


@final
class CallerForbidden(AgentError): ...


@final
class CallerTooLate(AgentError): ...


@final
class ThreadOfOtherAgent(AgentError): ...


@final
class ThreadWithoutAgent(AgentError): ...


@final
class ThreadEnded(AgentError): ...


@final
class DeliveryNotFound(AgentError): ...


@final
class DeliveryRefused(AgentError): ...


@final
class AgentListRefused(_WithReason): ...
