"""The events of a turn, and failures, as messages of the WebSocket. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphrag.agent import events as agent_events
from graphrag.agent.reply import sources_of
from graphrag.agent.thread_store import Thread
from graphrag.approvals import Approval, review_words
from graphrag.i18n import Language
from server.error_responses import error_response, note
from server.errors import TooManyRequests
from server.redaction import without_places
from server.ws_outbox import encode
from tools.proposals import to_document

Message = dict[str, Any]

_MEANT = {
    "auth_error": "auth_error unauthorized",
    "busy": "busy capacity",
    "content_filter": "content_filter",
    "context_length": "context_length",
    "forbidden": "forbidden",
    "invalid_message": "invalid_message invalid unreadable too_large invalid_agent",
    "network": "network unavailable",
    "not_found": "not_found agent_not_found call_not_found",
    "rate_limit": "rate_limit usage_limit no_credit",
    "server_error": "server_error request_refused",
    "stale": "stale conflict agent_state",
    "timeout": "timeout",
}
"""The codes that clients know, and what errors mean that are said by them; anything
else is `internal`.
"""
_CODES = {code: known for known, codes in _MEANT.items() for code in codes.split()}


def ended_document(thread: Thread) -> Message:
    """Return how a conversation with an agent ended."""
    part = thread.agent
    return {"reason": part.end_reason if part else None, "outcome": part.outcome if part else None}


class WireTurn:
    """One turn on its way to a client: gives every event its messages, all under
    the turn's `_id`.
    """

    def __init__(self, id: float, language: Language, thread_id: str | None = None) -> None:
        self.id = id
        self.language: Language = language
        self.thread_id = thread_id
        self.retrieved: tuple[str, ...] = ()
        self.words_only = False
        self.text: list[str] = []
        self.said_before = 0  # pieces of `text` that are of earlier answers of the model
        self.usage: list[agent_events.UsageReported] = []

    def messages(self, event: agent_events.Event) -> Iterator[Message]:
        """Yield what a client is sent of an event."""
        more: Message
        match event:
            case agent_events.TurnStarted():
                self.thread_id = event.thread_id
                self.retrieved = event.retrieved
                self.words_only = event.words_only
            case agent_events.Token():
                self.text.append(event.text)
                yield self._of("ai:token", token=event.text)
            case agent_events.TextTakenBack():
                del self.text[self.said_before :]  # `ai:complete` has the answer
            case agent_events.PromptRead():
                more = {"loading": True} if event.loading else {}
                yield self._of(
                    "ai:progress", promptRead=event.done, promptTokens=event.total, **more
                )
            case agent_events.ToolStarted():
                yield self._of("ai:tool_start", toolCallId=event.call_id, toolName=event.name)
            case agent_events.ToolFinished():
                yield self._of(
                    "ai:tool_result",
                    toolCallId=event.call_id,
                    result=event.result_text,
                    arguments=event.arguments,
                    isError=event.is_error,
                )
            case agent_events.UsageReported():
                self.said_before = len(self.text)
                yield self._of("ai:usage", usage=_usage(event))
            case agent_events.ActionApplied():
                yield self._applied(event.approval)
            case agent_events.ToolLimit():
                yield from self._limited(event)
            case agent_events.ProposalPending():
                document = interrupt_document(event.text, event.approvals, self.language)
                yield self.complete(event.thread_id, encode(document))
            case agent_events.QuestionAsked():
                yield self.complete(event.thread_id, encode(event.asked.shown(event.text)))
            case agent_events.Completed():
                more = {"stopped": True} if event.stopped else {}
                if event.end_reason is not None:
                    more["ended"] = {"reason": event.end_reason, "outcome": event.outcome}
                if event.not_in_graph is not None:
                    more["notInGraph"] = dict(event.not_in_graph)
                yield {**self.complete(event.thread_id, event.text), **more}
            case agent_events.Failed():
                fault = event.fault
                yield self.error(
                    fault.code,
                    without_places(fault.message(self.language)),
                    retryable=fault.retryable,
                    details=_details(fault, event.thread_id),
                )

    def _limited(self, event: agent_events.ToolLimit) -> Iterator[Message]:
        facts = {"roundsUsed": event.rounds_used, "maxExtended": event.max_extended}
        yield self._of("ai:tool_limit", **facts)
        document = {"type": "tool_limit", "message": event.text, **facts}
        yield self.complete(event.thread_id, encode(document))

    def stopped(self) -> Message:
        """Return the end of a turn that a person stopped: what was said of its
        answer until then.
        """
        return {**self.complete(self.thread_id or "", "".join(self.text)), "stopped": True}

    def complete(self, thread_id: str, full_text: str) -> Message:
        shown: Message = {"contextNodes": list(self.retrieved)} if self.retrieved else {}
        if self.words_only:
            shown["wordsOnly"] = True
        if sources := sources_of(full_text):
            shown["sources"] = sources
        return self._of("ai:complete", threadId=thread_id, fullText=full_text, **shown)

    def error(
        self,
        code: str,
        text: str,
        *,
        retryable: bool = False,
        details: Mapping[str, Any] | None = None,
    ) -> Message:
        return error_message(self.id, code, text, retryable=retryable, details=details)

    def _applied(self, approval: Approval) -> Message:
        result = approval.result
        conversion = result.conversion if result and result.conversion else {}
        revision = result.revision if result else None
        return self._of(
            "ai:apply_action",
            action={**_NOTHING, **conversion},
            applied=True,
            revision=revision,
            approvalId=approval.id,
        )

    def _of(self, type_: str, **fields: Any) -> Message:
        return {"type": type_, "_id": self.id, **fields}


_NOTHING: Message = {
    "instructions": [],
    "nodesToCreate": [],
    "edgesToCreate": [],
    "nodeKeysToDelete": [],
    "edgeKeysToDelete": [],
    "sheetId": "0",
}


def error_message(
    id_: float | None,
    code: str,
    text: str,
    *,
    retryable: bool = False,
    details: Mapping[str, Any] | None = None,
) -> Message:
    """Return an `ai:error`; without `_id` where the message that it answers had none."""
    message: Message = {
        "type": "ai:error",
        "error": text,
        "code": _CODES.get(code, "internal"),
        "retryable": retryable,
    }
    if id_ is not None:
        message["_id"] = id_
    if details:
        message["details"] = dict(details)
    return message


def interrupt_document(text: str, approvals: Sequence[Approval], language: Language) -> Message:
    """Return what a client shows while proposals wait; the oldest stands where there is
    room for one.
    """
    first = approvals[0]
    action = to_document(first.action)
    document: Message = {
        "type": "interrupt",
        "message": text,
        "proposedAction": action,
        "toolCall": {
            "id": first.tool_call_id,
            "name": f"propose_{action['type']}",
            "args": {**action["payload"], "reason": first.reason},
        },
        "approvals": [
            {
                "id": approval.id,
                "toolCallId": approval.tool_call_id,
                "action": to_document(approval.action),
                **review_words(approval, language),
                "preview": approval.preview,
                "reason": approval.reason,
                "dependsOn": list(approval.depends_on),
                "expiresAt": approval.expires,
            }
            for approval in approvals
        ],
    }
    diffs = code_diffs(first)
    return {**document, "codeDiffs": diffs} if diffs else document


def code_diffs(approval: Approval) -> list[Message]:
    """Return the code that a proposal changes, before and after."""
    changed = [*approval.preview.get("nodesChanged", []), *approval.preview.get("typesChanged", [])]
    payload = to_document(approval.action)["payload"]
    return [
        {
            "field": ".".join(field["path"]),
            "original": field.get("before") or "",
            "modified": field.get("after") or "",
            "patches": payload.get("patches") or [],
            "key": change["key"],
        }
        for change in changed
        for field in change["fields"]
        if field["path"][-1:] == ["process"]
        and isinstance(field.get("before") or "", str)
        and isinstance(field.get("after") or "", str)
    ]


def _usage(event: agent_events.UsageReported) -> Message:
    usage: Message = {
        "promptTokens": event.prompt,
        "completionTokens": event.completion,
        "totalTokens": event.prompt + event.completion,
    }
    if event.cost_usd is not None:
        usage["cost"] = event.cost_usd
    return usage


def _details(fault: agent_events.TurnFault, thread_id: str) -> Message:
    details: Message = {"threadId": thread_id}
    if fault.retry_after_s is not None:
        details["retryAfterS"] = fault.retry_after_s
    if fault.details:
        details["reason"] = fault.details
    return details


def fault_message(id_: float | None, exc: Exception, language: Language) -> Message:
    """Return the `ai:error` of a failure; of one that nobody foresaw the text is kept back."""
    found = error_response(exc, language)
    note(exc)
    details = {"retryAfterS": exc.wait_s} if isinstance(exc, TooManyRequests) else None
    return error_message(id_, found.code, found.message, retryable=found.retryable, details=details)


def is_unforeseen(exc: Exception) -> bool:
    """Tell whether a failure is a fault of this program, to be logged whole."""
    return error_response(exc, "en").code == "internal"


def answer(
    message: Message, id_: float | None, *, problem: str | None = None, code: str | None = None
) -> Message:
    """Return an editor's message as its answer: as it was sent, with how it went."""
    response: Message = {"status": problem is None}
    if problem is not None:
        response["message"] = problem
    if code is not None:
        response["code"] = code
    numbered = {} if id_ is None else {"_id": id_}
    return {**message, **numbered, "_response": response}
