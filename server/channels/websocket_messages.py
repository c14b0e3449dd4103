"""The events of a turn, and failures, as messages of the WebSocket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphrag.agent import events as agent_events
from graphrag.agent.reply import sources_of
from graphrag.agent.thread_store import Thread
from graphrag.approvals import Approval
from graphrag.i18n import Language
from server.channels.turn_documents import AnswerText, ending_document, tokens_document
from server.ws_outbox import encode

Message = dict[str, Any]

# The codes that clients know, each with the codes of errors that are sent as it. All others are
# sent as `internal`.
_SENT_AS = {
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
_CODES = {code: sent for sent, codes in _SENT_AS.items() for code in codes.split()}


def ended_document(thread: Thread) -> Message:
    """Returns how a conversation with an agent ended."""
    agent = thread.agent
    if agent is None:
        return {"reason": None, "outcome": None}
    return {"reason": agent.end_reason, "outcome": agent.outcome}


class WireTurn:
    """One turn on its way to a client: maps every event to messages with the turn's `_id`."""

    def __init__(self, id: float, language: Language, thread_id: str | None = None) -> None:
        self.id = id
        self.language: Language = language
        self.thread_id = thread_id
        self.retrieved: tuple[str, ...] = ()
        self.words_only = False
        self.text = AnswerText()

    def messages(self, event: agent_events.Event) -> Iterator[Message]:
        """Yields the messages that a client receives for an event."""
        match event:
            case agent_events.TurnStarted():
                self.thread_id = event.thread_id
                self.retrieved = event.retrieved
                self.words_only = event.words_only
            case agent_events.Token():
                self.text.add([event.text])
                yield self._of("ai:token", token=event.text)
            case agent_events.TextTakenBack():
                self.text.take_back()  # `ai:complete` has the answer
            case agent_events.PromptRead():
                more: Message = {"loading": True} if event.loading else {}
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
                self.text.end_call()
                yield self._of("ai:usage", usage=tokens_document([event]))
            case agent_events.ActionApplied():
                yield self._applied(event.approval)
            case _:
                yield from self._end(event)

    def _end(self, event: agent_events.Ending) -> Iterator[Message]:
        """Yields the last messages of a turn. What a turn waits for is JSON in `fullText`."""
        document = ending_document(event, self.language)
        if document["type"] == "error":
            yield self.error(
                document["code"],
                document["message"],
                retryable=document["retryable"],
                details=document["details"],
            )
            return
        facts = {name: value for name, value in document.items() if name not in ("type", "message")}
        if document["type"] == "message":
            yield {**self.complete(event.thread_id, document["message"]), **facts}
            return
        if document["type"] == "tool_limit":
            yield self._of("ai:tool_limit", **facts)
        yield self.complete(event.thread_id, encode(document))

    def stopped(self) -> Message:
        """Returns the end of a turn that a person stopped, with its text until then."""
        return {**self.complete(self.thread_id or "", str(self.text)), "stopped": True}

    def complete(self, thread_id: str, full_text: str) -> Message:
        """Returns the end of a turn with its text and the nodes that the model was shown."""
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
    """Returns an `ai:error`; without `_id` if the message that it answers had none."""
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


def answer(
    message: Message, id_: float | None, *, problem: str | None = None, code: str | None = None
) -> Message:
    """Returns an editor's message as its answer: as it was sent, with the result added."""
    response: Message = {"status": problem is None}
    if problem is not None:
        response["message"] = problem
    if code is not None:
        response["code"] = code
    numbered = {} if id_ is None else {"_id": id_}
    return {**message, **numbered, "_response": response}
