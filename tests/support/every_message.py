"""One message of every kind with every field that is stored."""

from __future__ import annotations

from graphrag.llm.base import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

BLOCK = {"id": "b1", "type": "POINTER", "target": {"kind": "node", "key": "check-amount"}}
RESULT = {"commandId": "c1", "title": "Node", "status": "SUCCESS", "ms": 3, "tokens": 12}
EXECUTION = {
    "automationId": "au_1",
    "automationVersion": 2,
    "trigger": "scheduled",
    "scheduledTime": 1_700_000_000_000,
    "timezone": "Europe/Paris",
}


def every_message() -> list[Message]:
    """Return a conversation in which each field of each kind is set once."""
    return [
        SystemMessage(content="Rules", id="m1", time=1),
        SystemMessage(content="Always sent", level=2, id="m2", time=2),
        UserMessage(
            content="See [points to Check amount]",
            retrieved=("check-amount",),
            segments=({"text": "See "}, {"block": BLOCK}),
            execution=EXECUTION,
            id="m3",
            time=3,
        ),
        SystemMessage(
            content="## Node\nkey: check-amount",
            stable=False,
            kind="DATA_ADDED",
            summary="Read: Check amount.",
            results=(RESULT,),
            id="m4",
            time=4,
        ),
        AssistantMessage(
            content="I look.",
            tool_calls=(ToolCall(id="a", name="look", arguments="{}", extra={"signature": "s"}),),
            origin="scripted",
            extra={"reasoning_content": "hm"},
            invalid=True,
            id="m5",
            time=5,
        ),
        ToolMessage(
            call_id="a",
            name="read_node_detail",
            content="no such node",
            is_error=True,
            id="m6",
            time=6,
        ),
        SystemMessage(
            content="Paused.",
            stable=False,
            kind="NETWORK_ERROR",
            summary="Waits for the model's service.",
            exclude_from_prompt=True,
            id="m7",
            time=7,
        ),
        AssistantMessage(content="For people", exclude_from_prompt=True, id="m8", time=8),
    ]
