"""Comments on a proposal, by its asker and by editors, also after the decision."""

from __future__ import annotations

from typing import Final

from graphrag.approvals.approval import Approval, Comment, clean
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.errors import DiscussionFull, NotAllowed
from graphrag.approvals.stored_parts import head_write
from graphrag.roles import Person

MAX_COMMENTS: Final = 100
MAX_COMMENT_CHARS: Final = 2_000
# The event of the audit entry of a comment. The entry does not contain the text.
COMMENTED: Final = "commented"


async def comment(context: ApprovalContext, approval_id: str, text: str, by: Person) -> Approval:
    """Adds a comment and returns the approval. Concurrent decisions and comments are both kept.

    Raises: ApprovalNotFound, NotAllowed (for people who may only read, unless they asked),
    DiscussionFull, ApprovalBusy.
    """

    async def add() -> Approval:
        approval = await context.get_visible(approval_id, by)
        if by.user_id != approval.asker and not by.at_least("editor"):
            raise NotAllowed(code="commenting_needs_editor", user_id=by.user_id, role=by.role)
        before = approval.comments or ()
        if len(before) >= MAX_COMMENTS:
            raise DiscussionFull(approval_id=approval.id, most=MAX_COMMENTS)
        content = clean(text).strip()[:MAX_COMMENT_CHARS]
        new_comment = Comment(by=by.user_id, at=context.clock(), text=content)
        facts = {
            "event": COMMENTED,
            "approvalId": approval.id,
            "graphKey": approval.graph_key,
            "asker": approval.asker,
            "threadId": approval.thread_id,
        }
        commented = approval.changed(comments=(*before, new_comment))
        head = head_write(commented)
        await context.audited(by, facts, lambda entry: context.records.write([head, *entry]))
        return commented.changed(version=None)

    approval = await context.get_visible(approval_id, by)
    return await context.in_turn(approval.graph_key, approval_id, add)
