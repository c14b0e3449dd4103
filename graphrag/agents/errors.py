"""Why a declarative agent, its conversation or its delivery cannot be used;
sentences in the catalogues.

Each names in brackets the facts that it is raised with; `version` 0: there is no such agent;
sizes in bytes.

AgentError ├── AgentNotFound         no such agent, or no such version of it, in this workspace
(agent_id, version) ├── AgentToolNotFound     the agent has no such tool, or one that makes no
request (agent_id, tool) ├── AgentTryFailed        no request of a tool can be made of the values
it was tried with (tool) ├── AgentChanged          somebody else stored another version since it
was read (agent_id, version) ├── AgentTooLarge         a document or what belongs to it has more
bytes than are kept (size, limit) ├── TooManyAgents         the workspace has all the agents it
may have (limit) ├── InvalidAgent          the document, or the world it needs, is not in order;
`errors` say where ├── AgentStateRefused     what is asked does not fit the agent's state
(agent_id, state, asked) ├── AgentNotRunning       no conversation begins with it now (agent_id,
state) ├── AgentBlocked          a check of the document refuses this caller ├──
AgentSessionFailed    its instructions were not to be had (agent_id) ├── AgentNotInChat
its document answers on other channels only (agent_id) ├── AgentGraphUnknown     it reads other
graphs, or none ├── CallerForbidden       a viewer may not speak on behalf of a caller's number
├── CallerTooLate         a caller's number is given with the first message ├──
ThreadOfOtherAgent    the conversation has another agent, or none (thread_id, agent_id) ├──
ThreadWithoutAgent    what is asked is for conversations with an agent (thread_id) ├──
ThreadEnded           the conversation was ended (thread_id) ├── DeliveryNotFound      no such
delivery in this workspace (delivery_id) ├── DeliveryRefused       a delivery that is done, or is
being sent, is not sent again (delivery_id, status) └── AgentListRefused      a list of agents to
keep in step with is not usable; nothing was changed (source)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphrag.i18n import Language, LocalizedError
from tools.http.problems import DocumentProblem

MAX_PROBLEMS = 50
_SHOWN = 3


class AgentError(LocalizedError, fact_chars=500):
    """Base of what declarative agents raise on purpose. `facts`: what its sentence names."""


class _WithReason(AgentError):
    """`reason` says in English, in either language, what was wrong."""

    def __init__(self, *, reason: str, **facts: Any) -> None:
        self.reason = reason
        super().__init__(**facts)

    def details(self, language: Language) -> str:  # noqa: ARG002
        return self.reason


class AgentNotFound(AgentError):
    def __init__(self, *, agent_id: str, version: int | None = None) -> None:
        super().__init__(agent_id=agent_id, version=version or 0)
        self.code = "AgentNotFound" if version is None else "no_agent_version"


class AgentToolNotFound(AgentError): ...


class AgentTryFailed(_WithReason): ...


class AgentChanged(AgentError): ...


class AgentTooLarge(AgentError): ...


class TooManyAgents(AgentError): ...


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


class AgentStateRefused(AgentError): ...


class AgentNotRunning(AgentError): ...


class AgentBlocked(AgentError):
    """`message`: the words of the check that refused, or "" for our own."""

    def __init__(self, *, message: str) -> None:
        self.message = message
        super().__init__(message=message)

    def text(self, language: Language) -> str:
        return self.message or super().text(language)


class AgentSessionFailed(AgentError): ...


class AgentNotInChat(AgentError): ...


class AgentGraphUnknown(AgentError):
    """`graphs`: those that the agent reads."""

    def __init__(self, *, agent_id: str, graphs: Sequence[str]) -> None:
        super().__init__(agent_id=agent_id, graphs=", ".join(graphs))
        self.code = "agent_reads_graphs" if graphs else "agent_reads_none"


class CallerForbidden(AgentError): ...


class CallerTooLate(AgentError): ...


class ThreadOfOtherAgent(AgentError): ...


class ThreadWithoutAgent(AgentError): ...


class ThreadEnded(AgentError): ...


class DeliveryNotFound(AgentError): ...


class DeliveryRefused(AgentError): ...


class AgentListRefused(_WithReason): ...
