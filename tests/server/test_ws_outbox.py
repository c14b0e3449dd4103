"""The box of messages to a client: order, bounds, merged tokens, clients that go or do not read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.ws_outbox import ClientGone, Outbox, OutboxLimits, encode

messages = st.lists(
    st.one_of(
        st.builds(
            lambda i, t: {"type": "ai:token", "_id": i, "token": t}, st.integers(1, 2), st.text(max_size=20)
        ),
        st.builds(lambda n: {"type": "other", "n": n}, st.integers()),
    ),
    max_size=40,
)


def unmerged(read: list[dict[str, Any]]) -> list[Any]:
    """What was said, with neighbouring pieces of one answer as one."""
    found: list[Any] = []
    for message in read:
        if message["type"] != "ai:token":
            found.append(message)
        elif found and isinstance(found[-1], tuple) and found[-1][0] == message["_id"]:
            found[-1] = (message["_id"], found[-1][1] + message["token"])
        else:
            found.append((message["_id"], message["token"]))
    return found


@given(messages, st.integers(1, 5), st.integers(1, 300), st.integers(0, 3))
def test_everything_arrives_in_order_and_what_waits_is_bounded(
    sent: list[dict[str, Any]], count: int, chars: int, slow: int
) -> None:
    async def play() -> list[str]:
        taken: list[str] = []
        largest = max((len(encode(message)) for message in sent), default=0)

        async def send(text: str) -> None:
            for _ in range(slow):
                await asyncio.sleep(0)
            assert box.chars <= max(chars, largest) + largest
            taken.append(text)

        box = Outbox(send, OutboxLimits(messages=count, chars=chars))
        running = asyncio.create_task(box.run())
        for message in sent:
            await box.put(message)
        await box.close()
        await running
        return taken

    taken = [json.loads(text) for text in asyncio.run(play())]
    assert unmerged(taken) == unmerged([json.loads(encode(message)) for message in sent])


async def test_a_put_waits_for_room_and_fails_when_the_client_is_gone() -> None:
    stuck = asyncio.Event()

    async def send(text: str) -> None:
        await stuck.wait()

    box = Outbox(send, OutboxLimits(chars=40, patience_s=0.05))
    running = asyncio.create_task(box.run())
    await box.put({"type": "a", "text": "x" * 100})
    waiting = asyncio.create_task(box.put({"type": "b"}))
    with pytest.raises(ClientGone) as gone:
        await running
    assert gone.value.waited_s == 0.05
    with pytest.raises(ClientGone):
        await waiting
    with pytest.raises(ClientGone):
        await box.put({"type": "c"})


def test_what_json_does_not_know_is_sent_as_near_as_can_be() -> None:
    assert json.loads(encode({"a": "half \ud800 pair", "n": 2**80})) == {"a": "half ? pair", "n": 2**80}
