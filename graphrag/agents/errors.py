"""Why a declarative agent, its conversation or its delivery cannot be used; sentences in the catalogues.

AgentError
├── AgentNotFound         no such agent, or no such version of it, in this workspace
├── AgentToolNotFound     the agent has no such tool, or one that makes no request
├── AgentTryFailed        no request of a tool can be made of the values it was tried with
├── AgentChanged          somebody else stored another version since it was read
├── AgentTooLarge         a document or what belongs to it has more bytes than are kept
├── TooManyAgents         the workspace has all the agents it may have
├── InvalidAgent          the document, or the world it needs, is not in order; `errors` say where
├── AgentStateRefused     what is asked does not fit the agent's state
├── AgentNotRunning       no conversation begins with it now
├── AgentBlocked          a check of the document refuses this caller
├── AgentSessionFailed    its instructions were not to be had
├── AgentNotInChat        its document answers on other channels only
├── AgentGraphUnknown     it reads other graphs, or none
├── CallerForbidden       a viewer may not speak on behalf of a caller's number
├── CallerTooLate         a caller's number is given with the first message
├── ThreadOfOtherAgent    the conversation has another agent, or none
├── ThreadWithoutAgent    what is asked is for conversations with an agent
├── ThreadEnded           the conversation was ended
├── DeliveryNotFound      no such delivery in this workspace
├── DeliveryRefused       a delivery that is done, or is being sent, is not sent again
└── AgentListRefused      a list of agents to keep in step with is not usable; nothing was changed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphrag.i18n import Language, LocalizedError

MAX_PROBLEMS = 50
_SHOWN = 3


class AgentError(LocalizedError):
    """Base of what declarative agents raise on purpose."""


class AgentNotFound(AgentError):
    code = "no_agent"

    def __init__(self, *, agent_id: str, version: int | None = None) -> None:
        super().__init__(id=agent_id[:80], version=version or 0)
        self.code = "no_agent" if version is None else "no_agent_version"


class AgentToolNotFound(AgentError):
    code = "no_agent_tool"

    def __init__(self, *, agent_id: str, tool: str) -> None:
        super().__init__(id=agent_id[:80], tool=tool[:80])


class AgentTryFailed(AgentError):
    code = "agent_try_failed"

    def __init__(self, *, tool: str, reason: str) -> None:
        self.reason = reason
        super().__init__(tool=tool[:80])

    def details(self, language: Language) -> str:  # noqa: ARG002 - an English reason in either language
        return self.reason


class AgentChanged(AgentError):
    """`actual` 0: there is no such agent."""

    code = "agent_changed"

    def __init__(self, *, agent_id: str, actual: int) -> None:
        self.actual = actual
        super().__init__(id=agent_id[:80], version=actual)


class AgentTooLarge(AgentError):
    """Units: bytes."""

    code = "agent_too_large"

    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(size=size, limit=limit)


class TooManyAgents(AgentError):
    code = "too_many_agents"

    def __init__(self, *, limit: int) -> None:
        super().__init__(limit=limit)


class InvalidAgent(AgentError):
    """`errors` and `warnings`: of `tools.http.problems.DocumentProblem`."""

    code = "agent_invalid"

    def __init__(self, *, errors: Sequence[Any], warnings: Sequence[Any] = ()) -> None:
        self.errors, self.warnings = tuple(errors)[:MAX_PROBLEMS], tuple(warnings)[:MAX_PROBLEMS]
        super().__init__(n=len(self.errors))

    def text(self, language: Language) -> str:
        shown = "; ".join(": ".join(filter(None, said_of(each))) for each in self.errors[:_SHOWN])
        return f"{super().text(language)}: {shown}" if shown else super().text(language)


def said_of(problem: Any) -> tuple[str, str]:
    """Return where a problem is and what it is."""
    return str(getattr(problem, "where", "")), str(getattr(problem, "what", problem))


class AgentStateRefused(AgentError):
    """`asked`: a word as `start` or `delete`."""

    code = "agent_state_refused"

    def __init__(self, *, agent_id: str, state: str, asked: str) -> None:
        super().__init__(id=agent_id[:80], state=state, asked=asked)


class AgentNotRunning(AgentError):
    code = "agent_not_running"

    def __init__(self, *, agent_id: str, state: str) -> None:
        super().__init__(id=agent_id[:80], state=state)


class AgentBlocked(AgentError):
    """`message`: the words of the check that refused, or "" for our own."""

    code = "agent_blocked"

    def __init__(self, *, message: str) -> None:
        self.message = message
        super().__init__(message=message)

    def text(self, language: Language) -> str:
        return self.message or super().text(language)


class AgentSessionFailed(AgentError):
    code = "agent_session_failed"

    def __init__(self, *, agent_id: str) -> None:
        super().__init__(id=agent_id[:80])


class AgentNotInChat(AgentError):
    code = "agent_not_in_chat"

    def __init__(self, *, agent_id: str) -> None:
        super().__init__(id=agent_id[:80])


class AgentGraphUnknown(AgentError):
    """`graphs`: those that the agent reads."""

    def __init__(self, *, agent_id: str, graphs: Sequence[str]) -> None:
        super().__init__(id=agent_id[:80], graphs=", ".join(graphs))
        self.code = "agent_reads_graphs" if graphs else "agent_reads_none"


class CallerForbidden(AgentError):
    code = "caller_forbidden"


class CallerTooLate(AgentError):
    code = "caller_too_late"


class ThreadOfOtherAgent(AgentError):
    code = "thread_of_other_agent"

    def __init__(self, *, thread_id: str, agent_id: str) -> None:
        super().__init__(thread=thread_id[:120], id=agent_id[:80])


class ThreadWithoutAgent(AgentError):
    code = "thread_without_agent"

    def __init__(self, *, thread_id: str) -> None:
        super().__init__(id=thread_id[:120])


class ThreadEnded(AgentError):
    code = "thread_ended"

    def __init__(self, *, thread_id: str) -> None:
        super().__init__(id=thread_id[:120])


class DeliveryNotFound(AgentError):
    code = "no_delivery"

    def __init__(self, *, delivery_id: str) -> None:
        super().__init__(id=delivery_id[:200])


class DeliveryRefused(AgentError):
    code = "delivery_refused"

    def __init__(self, *, delivery_id: str, status: str) -> None:
        super().__init__(id=delivery_id[:200], status=status)


class AgentListRefused(AgentError):
    """`reason` says in English what was wrong with the file or its list."""

    code = "agent_list_refused"

    def __init__(self, *, source: str, reason: str) -> None:
        self.reason = reason
        super().__init__(source=source[:200])

    def details(self, language: Language) -> str:  # noqa: ARG002 - an English reason in either language
        return self.reason
