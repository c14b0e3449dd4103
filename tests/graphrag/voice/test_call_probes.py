"""Very many probes of strangers for calls and their tokens: nothing of another workspace shows or changes."""

from __future__ import annotations

import os
import random
import string

import pytest

from datasources.mock import MemoryDatabase
from graphrag.roles import Person
from graphrag.voice.call_errors import CallError, StreamRefused
from tests.server.probing import TWISTS
from tests.support.agent_life import Api
from tests.support.phone_calls import SID, PhoneServer, phone_server_on

PROBES = int(os.environ.get("PROBES", "8000"))
STRANGER = Person("eve", "admin", "elsewhere")
MADE_UP = "f" * 32


def tokens(choose: random.Random, token: str, other: str) -> str:
    """Return a token that is not that of the call, but nearly."""
    workspace, call_id, secret = token.split(".")
    theirs = other.split(".")
    place = choose.randrange(len(secret))
    letter = choose.choice(string.ascii_letters + string.digits + "-_")
    changed = secret[:place] + letter + secret[place + 1 :]
    made = [
        f"{theirs[0]}.{call_id}.{secret}",
        f"{workspace}.{call_id}.{theirs[2]}",
        f"{workspace}.{theirs[1]}.{secret}",
        f"{workspace}.{call_id}.{changed if changed != secret else secret[::-1]}",
        f"{workspace.upper()}.{call_id}.{secret}",
        f"{workspace}.{call_id}.{secret}\n",
        f"{call_id}.{secret}",
    ]
    return choose.choice(made)


async def answer(server: PhoneServer, what: int, call_id: str) -> str:
    """Return what a stranger is answered about a call."""
    calls = server.calls
    try:
        match what:
            case 0:
                return str((await calls.get(call_id, STRANGER)).call_id)
            case 1:
                return str(await calls.document(call_id, STRANGER))
            case 2:
                return str((await calls.end(call_id, STRANGER)).status)
            case 3:
                return str(await calls.forget(call_id, STRANGER))
            case 4:
                return str([each async for each in calls.follow(call_id, STRANGER)])
            case _:
                return str(await calls.after(call_id))
    except CallError as exc:
        return exc.text("en").replace(call_id[:80], "KEY")


async def probed(count: int) -> None:
    api, choose = Api(), random.Random(5)
    async with MemoryDatabase() as database:
        real = phone_server_on(database, api)
        strange = phone_server_on(database, api, clock=real.clock, workspace="elsewhere")
        call, token = await real.ring()
        _, own = await strange.ring("CA-own")
        before = await database.records("default").get("call", call.call_id)
        for number in range(count):
            if number % 2:
                text = tokens(choose, token, own)
                for server in (real, strange):
                    with pytest.raises(StreamRefused):
                        await server.calls.take(text, SID)
            else:
                what, twist = choose.randrange(6), choose.choice(TWISTS)
                expected = await answer(strange, what, twist(MADE_UP))
                assert await answer(strange, what, twist(call.call_id)) == expected
        with pytest.raises(StreamRefused):
            await strange.calls.take(token, SID)
        assert await database.records("default").get("call", call.call_id) == before
        assert (await strange.calls.listed(STRANGER).list())[0][0].call_sid == "CA-own"
        assert (await real.calls.take(token, SID)).call_id == call.call_id


async def test_probes_for_calls_and_tokens_find_nothing() -> None:
    await probed(500)


@pytest.mark.slow
async def test_many_probes_for_calls_and_tokens_find_nothing() -> None:
    await probed(PROBES)
