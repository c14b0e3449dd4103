"""Errors of proposals and decisions.

ApprovalError
├── ApprovalNotFound   the approval does not exist, or belongs to another workspace or thread
├── NotAllowed         the person may not do this; `code` names the rule
├── ProposalRefused    the action cannot be applied to this graph; see `problems`
├── AlreadyProposed    the same change already waits for a decision in this conversation
├── RejectedBefore     a person rejected the same change, and the content it touches is unchanged
├── AlreadyDecided     the proposal was decided earlier
├── ProposalExpired    the proposal was not decided in time
├── ProposalWaits      the proposal depends on others that are not decided yet
├── ApprovalBusy       too many decisions are queued, or the graph changed at each attempt
├── DiscussionFull     the proposal has the maximum number of comments
├── TypeNotFound       the workspace defines no node type of this name
├── CodemodRefused     a replacement over many graphs cannot be proposed; `code` names the reason
├── NothingToUndo      there is no applied change to undo
├── UndoGone           the undo data of the change are no longer stored
└── UndoRefused        later changes depend on the change to undo
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from graphrag.i18n import Language, LocalizedError
from tools.base import Problem

_SHOWN = 5


class ApprovalError(LocalizedError):
    """Base of the errors of proposals and decisions. `approval_id`: "" if there is none."""

    def __init__(self, *, approval_id: str = "", **facts: Any) -> None:
        self.approval_id = approval_id
        super().__init__(**{"id": approval_id[:80], **facts})


@final
class ApprovalNotFound(ApprovalError, code="approval_unknown"): ...


@final
class NotAllowed(ApprovalError):
    def __init__(self, *, code: str, user_id: str, role: str) -> None:
        self.code = code
        super().__init__(user=user_id, role=role)


def problem_lines(problems: Sequence[Problem]) -> str:
    """Returns the first problems of an action, each with its path."""
    return "; ".join(f"{p.where}: {p.what}" if p.where else p.what for p in problems[:_SHOWN])


@final
class ProposalRefused(ApprovalError, code="proposal_refused"):
    def __init__(self, *, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(problems=problem_lines(problems))

    def details(self, language: Language) -> str:
        # the English text already contains them
        return "" if language == "en" else "; ".join(problem.what for problem in self.problems)


@final
class AlreadyProposed(ApprovalError, code="already_proposed"): ...


@final
class RejectedBefore(ApprovalError):
    def __init__(self, *, approval_id: str, by: str, feedback: str) -> None:
        self.code = "rejected_before_why" if feedback else "rejected_before"
        super().__init__(
            approval_id=approval_id, by=by, **({"feedback": feedback} if feedback else {})
        )


@final
class AlreadyDecided(ApprovalError):
    """`status`: the status of the approval."""

    def __init__(self, *, approval_id: str, status: str, by: str) -> None:
        self.status = status
        self.by = by
        self.code = f"already_{status}"
        super().__init__(approval_id=approval_id, by=by)


@final
class ProposalExpired(ApprovalError, code="already_expired"): ...


@final
class ProposalWaits(ApprovalError, code="proposal_waits"):
    def __init__(self, *, approval_id: str, on: Sequence[str]) -> None:
        super().__init__(approval_id=approval_id, others=", ".join(on))


@final
class ApprovalBusy(ApprovalError, code="approval_busy"): ...


@final
class DiscussionFull(ApprovalError, code="discussion_full"): ...


@final
class TypeNotFound(ApprovalError, code="policy_no_type"): ...


@final
class CodemodRefused(ApprovalError):
    def __init__(self, *, code: str, **facts: Any) -> None:
        self.code = code
        super().__init__(**facts)


@final
class NothingToUndo(ApprovalError, code="nothing_to_undo"):
    def __init__(self, *, graph_key: str, approval_id: str | None = None) -> None:
        super().__init__(approval_id=approval_id or "", what=approval_id or graph_key)


@final
class UndoGone(ApprovalError, code="undo_gone"): ...


@final
class UndoRefused(ApprovalError, code="undo_refused"):
    """`changed`: the content that later changes altered or depend on, as `node/KEY: data.name`."""

    def __init__(self, *, approval_id: str, changed: Sequence[str]) -> None:
        self.changed = tuple(changed)
        more = f" (+{len(self.changed) - _SHOWN})" if len(self.changed) > _SHOWN else ""
        super().__init__(approval_id=approval_id, changed="; ".join(self.changed[:_SHOWN]) + more)
