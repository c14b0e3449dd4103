"""Proposals and their decisions, by people or by policy. Every change of a graph needs one.

Other packages import the names of `__all__`, `approval`, `approval_context`, `preview`,
`conflicts`, `discussion`, `wording`, `stored_parts`, `broken_code` and `voice_codes` (proposals as
they are stored and shown), `validation` and `policies` (when a person must decide), `audit`,
`codemods`, `imported_changes`, `errors`.
"""

from __future__ import annotations

from graphrag.approvals.approval import (
    Approval,
    Approve,
    ApproveEdited,
    Decision,
    Outcome,
    Reject,
    Status,
)
from graphrag.approvals.approval_service import Approvals
from graphrag.approvals.errors import (
    AlreadyDecided,
    AlreadyProposed,
    ApprovalError,
    ApprovalNotFound,
    NotAllowed,
    ProposalExpired,
    ProposalRefused,
    RejectedBefore,
)
from graphrag.approvals.proposing import CHAT_SESSION, Asked, ProposingSession
from graphrag.approvals.wording import outcome_facts, outcome_text, reason_text, review_words, title
from graphrag.roles import Person, Policy

__all__ = [
    "CHAT_SESSION",
    "AlreadyDecided",
    "AlreadyProposed",
    "Approval",
    "ApprovalError",
    "ApprovalNotFound",
    "Approvals",
    "Approve",
    "ApproveEdited",
    "Asked",
    "Decision",
    "NotAllowed",
    "Outcome",
    "Person",
    "Policy",
    "ProposalExpired",
    "ProposalRefused",
    "ProposingSession",
    "Reject",
    "RejectedBefore",
    "Status",
    "outcome_facts",
    "outcome_text",
    "reason_text",
    "review_words",
    "title",
]
