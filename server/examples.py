"""Examples of requests in the OpenAPI description; a test sends each of them."""

from __future__ import annotations

from fastapi.openapi.models import Example

CHATS: dict[str, Example] = {
    "question": Example(
        summary="Ask about a graph",
        value={"graphKey": "testgraph001", "message": "What happens when fetching the players fails?"},
    ),
    "change": Example(
        summary="Ask for a change; the answer is a proposal that waits",
        value={"graphKey": "testgraph001", "message": 'rename error-handler to "Report error"'},
    ),
}
RESUMES: dict[str, Example] = {
    "approve": Example(summary="Approve", value={"threadId": "THREAD", "approved": True}),
    "reject": Example(
        summary="Reject with the reason",
        value={"threadId": "THREAD", "approved": False, "feedback": "The name is used elsewhere"},
    ),
    "one of several": Example(
        summary="Decide one of several proposals",
        value={"threadId": "THREAD", "approved": True, "approvalId": "ap_0123456789abcdef01234567"},
    ),
}
DECISIONS: dict[str, Example] = {
    "approve": Example(summary="Approve", value={"verdict": "approve"}),
    "edit": Example(
        summary="Approve something else",
        value={
            "verdict": "approve",
            "editedAction": {
                "type": "update_node",
                "payload": {"nodeKey": "error-handler", "changes": {"data.name": "Report the error"}},
            },
        },
    ),
    "reject": Example(summary="Reject", value={"verdict": "reject", "feedback": "Not now"}),
}
