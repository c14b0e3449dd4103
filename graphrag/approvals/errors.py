"""Why a proposal is not taken, or a decision is not carried out.

ApprovalError
├── ApprovalNotFound   no such approval here: forged, of another workspace, of another thread
├── NotAllowed       this person may not do that; `code` says why
├── ProposalRefused    the action cannot be carried out on this graph; `problems` say what is wrong
├── AlreadyProposed    the same change waits for a decision in this conversation
├── AlreadyDecided     somebody decided it
├── ProposalExpired    nobody decided it in time
├── ProposalWaits      it needs others that are not decided yet
├── ApprovalBusy       too many wait, or the graph changed each time it was tried; still to be decided
├── NothingToUndo      there is no applied change left to take back
└── UndoRefused        later changes rest on what would be taken back
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphrag.i18n import Language, LocalizedError
from tools.base import Problem


class ApprovalError(LocalizedError):
    """Base of what proposals and decisions raise on purpose."""

    code = "conflict"


class ApprovalNotFound(ApprovalError):
    code = "approval_unknown"

    def __init__(self, *, approval_id: str) -> None:
        self.approval_id = approval_id
        super().__init__(approval_id)

    def facts(self) -> Mapping[str, Any]:
        return {"id": self.approval_id[:80]}


class NotAllowed(ApprovalError):
    def __init__(self, *, code: str, user_id: str, role: str) -> None:
        self.code, self.user_id, self.role = code, user_id, role
        super().__init__(code)

    def facts(self) -> Mapping[str, Any]:
        return {"user": self.user_id, "role": self.role}


class ProposalRefused(ApprovalError):
    code = "proposal_refused"

    def __init__(self, *, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def facts(self) -> Mapping[str, Any]:
        shown = [f"{p.where}: {p.what}" if p.where else p.what for p in self.problems[:5]]
        return {"problems": "; ".join(shown)}

    def details(self, language: Language) -> str:
        return "; ".join(problem.what for problem in self.problems) if language == "fr" else ""


class AlreadyProposed(ApprovalError):
    code = "already_proposed"

    def __init__(self, *, approval_id: str) -> None:
        self.approval_id = approval_id
        super().__init__(approval_id)

    def facts(self) -> Mapping[str, Any]:
        return {"id": self.approval_id}


class AlreadyDecided(ApprovalError):
    """`status` is what it came to."""

    def __init__(self, *, approval_id: str, status: str, by: str, at: int) -> None:
        self.approval_id, self.status, self.by, self.at = approval_id, status, by, at
        self.code = f"already_{status}"
        super().__init__(approval_id, status, by)

    def facts(self) -> Mapping[str, Any]:
        return {"id": self.approval_id, "by": self.by}


class ProposalExpired(ApprovalError):
    code = "already_expired"

    def __init__(self, *, approval_id: str, expires: int) -> None:
        self.approval_id, self.expires = approval_id, expires
        super().__init__(approval_id)

    def facts(self) -> Mapping[str, Any]:
        return {"id": self.approval_id}


class ProposalWaits(ApprovalError):
    code = "proposal_waits"

    def __init__(self, *, approval_id: str, on: Sequence[str]) -> None:
        self.approval_id, self.on = approval_id, tuple(on)
        super().__init__(approval_id, self.on)

    def facts(self) -> Mapping[str, Any]:
        return {"id": self.approval_id, "others": ", ".join(self.on)}


class ApprovalBusy(ApprovalError):
    code = "approval_busy"

    def __init__(self, *, approval_id: str) -> None:
        self.approval_id = approval_id
        super().__init__(approval_id)

    def facts(self) -> Mapping[str, Any]:
        return {"id": self.approval_id}


class NothingToUndo(ApprovalError):
    code = "nothing_to_undo"

    def __init__(self, *, graph_key: str, approval_id: str | None = None) -> None:
        self.graph_key, self.approval_id = graph_key, approval_id
        super().__init__(graph_key, approval_id)

    def facts(self) -> Mapping[str, Any]:
        return {"what": self.approval_id or self.graph_key}


class UndoRefused(ApprovalError):
    """`changed` names what later changes altered or built upon, as `node/KEY: data.name`."""

    code = "undo_refused"

    def __init__(self, *, approval_id: str, changed: Sequence[str]) -> None:
        self.approval_id, self.changed = approval_id, tuple(changed)
        super().__init__(approval_id, self.changed)

    def facts(self) -> Mapping[str, Any]:
        more = f" (+{len(self.changed) - 5})" if len(self.changed) > 5 else ""
        return {"id": self.approval_id, "changed": "; ".join(self.changed[:5]) + more}
