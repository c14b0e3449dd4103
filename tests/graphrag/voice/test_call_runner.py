"""A call is held from the start of its stream to its end, however it ends."""

from __future__ import annotations

from typing import Any

from tests.support.agent_life import Api, document
from tests.support.held_calls import by_clock, held_call
from tools.http.fetch import HttpAnswer

GREETING = {"unknown_customer": "Greet them."}


def shop(**changes: Any) -> dict[str, Any]:
    declared = [{"type": "function", "name": name} for name in ("order", "look")]
    session = {"mode": "inline", "instructions": "You sell.", "tools": declared}
    tools = {**document()["tools"], "bye": {"type": "builtin", "action": "hangup"}}
    return document(session=session, tools=tools, **changes)


@by_clock
async def test_a_plain_call_from_its_greeting_to_the_callers_goodbye() -> None:
    api = Api(answers={"/calls": HttpAnswer(status=201, value={"id": "c-7"})})
    async with held_call(shop(greeting=GREETING), api=api) as call:
        await call.open()
        assert call.model.kinds()[1:3] == ["conversation.item.create", "response.create"]
        call.model.answers("Good day.")
        await call.rest()
        call.phone.play()
        call.model.heard("Are you open?")
        call.model.answers("Until six.")
        await call.rest(2)
        call.phone.hang_up()
        over = await call.over()
        assert (over.reason, call.records.stored["status"]) == ("caller_hung_up", "ending")
        await call.life.endings.end_held(call.runner.call_id, over.reason)
        await call.life.deliveries.wait_until_sent(timeout_s=5)
        part = await call.part()
    assert (part.channel, part.end_reason, part.outcome) == ("voice", "caller_hung_up", "info_only")
    assert [(each["role"], each["content"]) for each in part.transcript] == [
        ("system", "Greet them."),
        ("assistant", "Good day."),
        ("user", "Are you open?"),
        ("assistant", "Until six."),
    ]
    started, note, end = api.sent
    assert started.body["phone"] == "+33612345678"
    assert note.body["content"].splitlines()[-1] == "Assistant: Until six."
    assert (end.body["reason"], end.body["outcome"], end.body["id"]) == ("caller_hung_up", "info_only", "c-7")
    assert [said["role"] for said in end.body["transcript"]] == ["assistant", "user", "assistant"]
    assert call.records.stored["usage"]["audioOut"] == 14
