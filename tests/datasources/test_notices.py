"""Notices end the wait of those that they concern, once for many, and none is needed."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.base import RecordWrite
from datasources.notices import (
    MAX_BYTES,
    MAX_KEPT,
    MAX_KEYS,
    NoticeInbox,
    NoticeRouter,
    StoreNotice,
    notice_payloads,
    read_notice,
)
from datasources.record_kinds import GRAPH, TOLD_KINDS
from tests.support.timeless import by_clock
from tests.support.told_database import Channel

HOURS_S = 36_000.0


def about(
    key: str | None = "one", *, kind: str = "call", workspace: str = "default"
) -> StoreNotice:
    return StoreNotice(workspace=workspace, kind=kind, key=key)


def telling() -> NoticeRouter:
    """Returns a router whose notices the test tells."""
    return NoticeRouter(Channel())


async def heard(inbox: NoticeInbox) -> Sequence[StoreNotice] | None:
    """Returns what ends a wait of hours."""
    notices = await inbox.wait(HOURS_S)
    return None if notices is None else list(notices)


@by_clock
async def test_what_is_told_between_a_read_and_the_wait_ends_the_wait() -> None:
    router = telling()
    with router.subscribed("call") as inbox:
        router.notice_told(about("one"))
        assert await heard(inbox) == [about("one")]
        router.notice_told(about("two"))
        assert await heard(inbox) == [about("two")]


@by_clock
async def test_a_wait_ends_only_at_notices_that_concern_it() -> None:
    router = telling()
    with (
        router.subscribed("call", workspace="default", key="one") as one,
        router.subscribed("call", "lease", workspace="default") as any_key,
        router.subscribed("call") as anywhere,
    ):
        for notice in (
            about("one", workspace="other"),
            about("two"),
            about("one", kind="lease"),
            about("one", kind="thread"),
            about("one"),
        ):
            router.notice_told(notice)
        assert await heard(one) == [about("one")]
        assert await heard(any_key) == [about("two"), about("one", kind="lease"), about("one")]
        assert await heard(anywhere) == [
            about("one", workspace="other"),
            about("two"),
            about("one"),
        ]


@by_clock
async def test_a_notice_without_a_key_concerns_every_key_of_its_kind() -> None:
    router = telling()
    with (
        router.subscribed("call", workspace="default", key="one") as one,
        router.subscribed("call") as anywhere,
        router.subscribed("call", workspace="other", key="one") as other,
        router.subscribed("lease", workspace="default", key="one") as lease,
    ):
        router.notice_told(about(None))
        for inbox in (other, lease):
            inbox.wake()
        assert await heard(one) == [about(None)]
        assert await heard(anywhere) == [about(None)]
        assert await heard(other) is await heard(lease) is None


@by_clock
async def test_many_notices_are_one_read() -> None:
    router = telling()
    with router.subscribed("call", least_s=5.0) as inbox:
        reads = 0

        async def read() -> None:
            nonlocal reads
            while True:
                await inbox.wait(HOURS_S)
                reads += 1

        reading = asyncio.create_task(read())
        for number in range(1_000):  # over 100 seconds
            router.notice_told(about(str(number)))
            await asyncio.sleep(0.1)
        reading.cancel()
    assert 19 <= reads <= 20


@by_clock
async def test_without_notices_a_wait_is_a_pause() -> None:
    loop = asyncio.get_running_loop()
    with NoticeRouter().subscribed("call") as inbox:
        began = loop.time()
        assert await inbox.wait(50.0) is None
        assert loop.time() - began >= 50.0


@by_clock
async def test_everything_is_read_as_often_as_without_notices_however_many_arrive() -> None:
    router = telling()
    loop = asyncio.get_running_loop()
    with router.subscribed("call") as inbox:
        began = loop.time()
        whole = 0
        while loop.time() - began < 100:
            router.notice_told(about())
            whole += await inbox.wait(10.0) is None
            await asyncio.sleep(1)
    assert 8 <= whole <= 10


@by_clock
async def test_an_inbox_is_bounded() -> None:
    router = telling()
    with router.subscribed("call") as inbox:
        for number in range(MAX_KEPT):
            router.notice_told(about(str(number)))
        assert len(await heard(inbox) or ()) == MAX_KEPT
        for number in range(MAX_KEPT + 1):
            router.notice_told(about(str(number)))
        assert await heard(inbox) is None


class Seen:
    """Counts what an observer is told."""

    def __init__(self) -> None:
        self.notices: list[StoreNotice] = []
        self.connected: list[bool] = []

    def notice_told(self, notice: StoreNotice) -> None:
        self.notices.append(notice)

    def notices_connected(self, is_connected: bool) -> None:
        self.connected.append(is_connected)


@by_clock
async def test_a_lost_connection_lets_everything_be_read_then_and_when_it_is_back() -> None:
    channel = Channel()
    router = NoticeRouter(channel)
    observer = Seen()
    listening = asyncio.create_task(router.listen(observer))
    payloads = notice_payloads("default", [write("call", "one")])
    with router.subscribed("call") as inbox:
        assert await heard(inbox) is None, "it was connected"
        channel.lose()
        assert await heard(inbox) is None
        channel.tell(payloads)
        assert await inbox.wait(5.0) is None, "polling goes on"
        channel.regain()
        assert await heard(inbox) is None
        channel.tell(payloads)
        assert await heard(inbox) == [about("one")]
    listening.cancel()
    assert observer.connected == [True, False, True]
    assert observer.notices == [about("one")]


def write(kind: str, key: str, *, is_quiet: bool = False) -> RecordWrite:
    return RecordWrite(kind=kind, key=key, data={}, expected_version=None, is_quiet=is_quiet)


def read(payloads: Sequence[str]) -> list[StoreNotice | None]:
    return [read_notice(payload) for payload in payloads]


def test_a_transaction_tells_what_something_waits_for_once() -> None:
    writes = [
        write("call", "one"),
        write("audit", "1"),
        write("call", "one"),
        write("lease", "two", is_quiet=True),
        write("lease", "one"),
    ]
    assert read(notice_payloads("default", writes, "flow")) == [
        about("one"),
        about("one", kind="lease"),
        about("flow", kind=GRAPH),
    ]
    assert notice_payloads("default", [write("audit", "1")]) == []


def test_a_transaction_with_many_records_of_a_kind_tells_the_kind() -> None:
    few = [write("call", str(number)) for number in range(MAX_KEYS)]
    assert len(notice_payloads("default", few)) == MAX_KEYS
    assert read(notice_payloads("default", [*few, write("call", "x")])) == [about(None)]


@given(st.text(max_size=50), st.sampled_from([*sorted(TOLD_KINDS), GRAPH]), st.text())
def test_what_is_told_is_read(workspace: str, kind: str, key: str) -> None:
    told = notice_payloads(workspace, [write(kind, key)] if kind != GRAPH else [], key)
    assert StoreNotice(workspace=workspace, kind=kind, key=key) in read(told)


@pytest.mark.parametrize("key", ["k" * 9_000, "é" * 4_000, "\n" * 5_000])
def test_a_long_key_is_not_told(key: str) -> None:
    [payload] = notice_payloads("default", [write("call", key)])
    assert len(payload.encode()) < MAX_BYTES
    assert read_notice(payload) == about(None)


@pytest.mark.parametrize(
    "payload",
    ["", "{", "null", '["a","call"]', '["a","call",1]', '["a","nothing","k"]', '{"kind":"call"}'],
)
def test_a_payload_of_another_program_is_no_notice(payload: str) -> None:
    assert read_notice(payload) is None
