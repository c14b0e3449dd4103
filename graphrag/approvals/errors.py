"""Why a proposal is not accepted, or a decision is not carried out.

ApprovalError ├── ApprovalNotFound   no such approval here: forged, of another workspace, of another
thread ├── NotAllowed         this person may not do that; `code` says why ├── ProposalRefused
the action cannot be carried out on this graph; `problems` say what is wrong ├── AlreadyProposed
the same change waits for a decision in this conversation ├── RejectedBefore     a person rejected
the same change, and nothing it touches has changed since ├── AlreadyDecided     somebody decided it
├── ProposalExpired    nobody decided it in time ├── ProposalWaits      it needs others that are not
decided yet ├── ApprovalBusy       too many wait, or the graph changed each time it was tried; still
to be decided ├── DiscussionFull     it has as many comments as it may have ├── TypeNotFound
the workspace has no node type of its own of this name ├── ProgramRefused     a program may not
propose this │   ├── ProgramBlocked     an admin takes nothing from it │   ├── ClassesRefused
its rules leave these classes of change out │   └── DailyLimitReached  it has proposed as much as it
may today ├── ProgramUnknown     this names no program that there can be ├── ProgramRulesFull
there are as many rules for programs as there may be ├── CodemodRefused     a replacement over many
graphs that cannot be proposed; `code` says why ├── NothingToUndo      there is no applied change
left to take back ├── UndoGone           what would take the change back is no longer kept └──
UndoRefused        later changes rest on what would be taken back
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphrag.i18n import Language, LocalizedError
from tools.base import Problem

_SHOWN = 5


class ApprovalError(LocalizedError):
    """Base of what proposals and decisions raise on purpose. `approval_id` is "" where it
    is about none.
    """

    def __init__(self, *, approval_id: str = "", **facts: Any) -> None:
        self.approval_id = approval_id
        super().__init__(**{"id": approval_id[:80], **facts})


class ApprovalNotFound(ApprovalError, code="approval_unknown"): ...


class NotAllowed(ApprovalError):
    def __init__(self, *, code: str, user_id: str, role: str) -> None:
        self.code = code
        super().__init__(user=user_id, role=role)


def problem_lines(problems: Sequence[Problem]) -> str:
    """Return the first of what is wrong with an action, each with its place."""
    return "; ".join(f"{p.where}: {p.what}" if p.where else p.what for p in problems[:_SHOWN])


class ProposalRefused(ApprovalError, code="proposal_refused"):
    def __init__(self, *, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(problems=problem_lines(problems))

    def details(self, language: Language) -> str:
        return "; ".join(problem.what for problem in self.problems) if language == "fr" else ""


class AlreadyProposed(ApprovalError, code="already_proposed"): ...


class RejectedBefore(ApprovalError):
    def __init__(self, *, approval_id: str, by: str, feedback: str) -> None:
        self.code = "rejected_before_why" if feedback else "rejected_before"
        super().__init__(
            approval_id=approval_id, by=by, **({"feedback": feedback} if feedback else {})
        )


class AlreadyDecided(ApprovalError):
    """`status` is what it came to."""

    def __init__(self, *, approval_id: str, status: str, by: str) -> None:
        self.status = status
        self.by = by
        self.code = f"already_{status}"
        super().__init__(approval_id=approval_id, by=by)


class ProposalExpired(ApprovalError, code="already_expired"): ...


class ProposalWaits(ApprovalError, code="proposal_waits"):
    def __init__(self, *, approval_id: str, on: Sequence[str]) -> None:
        super().__init__(approval_id=approval_id, others=", ".join(on))


class ApprovalBusy(ApprovalError, code="approval_busy"): ...


class DiscussionFull(ApprovalError, code="discussion_full"): ...


class TypeNotFound(ApprovalError, code="policy_no_type"): ...


class CodemodRefused(ApprovalError):
    def __init__(self, *, code: str, **facts: Any) -> None:
        self.code = code
        super().__init__(**facts)


class ProgramRefused(ApprovalError): ...


class ProgramBlocked(ProgramRefused, code="program_blocked"): ...


class ClassesRefused(ProgramRefused, code="program_classes"): ...


class DailyLimitReached(ProgramRefused, code="program_daily"): ...


class ProgramUnknown(ApprovalError, code="program_unknown"): ...


class ProgramRulesFull(ApprovalError, code="program_rules_full"): ...


class NothingToUndo(ApprovalError, code="nothing_to_undo"):
    def __init__(self, *, graph_key: str, approval_id: str | None = None) -> None:
        super().__init__(approval_id=approval_id or "", what=approval_id or graph_key)


class UndoGone(ApprovalError, code="undo_gone"): ...


class UndoRefused(ApprovalError, code="undo_refused"):
    """`changed` names what later changes altered or built upon, as `node/KEY: data.name`."""

    def __init__(self, *, approval_id: str, changed: Sequence[str]) -> None:
        self.changed = tuple(changed)
        more = f" (+{len(self.changed) - _SHOWN})" if len(self.changed) > _SHOWN else ""
        super().__init__(approval_id=approval_id, changed="; ".join(self.changed[:_SHOWN]) + more)
