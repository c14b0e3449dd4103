import asyncio
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from datasources.base import Database, Record, RecordStore
from datasources.errors import RecordConflict
from datasources.mock import MemoryDatabase
from datasources.types import ROOT_WORKSPACE
from graphrag.delivery_queue import CLAIMED_MS, DELAYS_MS, KEPT_MS, DeliveryQueue
from graphrag.leases import is_local_process_dead, new_owner
from graphrag.stored_records import change_record, delete_record, put_over

KIND = "lease"


def records() -> RecordStore:
    return MemoryDatabase().records("default")


async def test_a_record_is_put_over_the_version_that_was_read_alone():
    store = records()
    first = await put_over(store, Record(kind=KIND, key="a", data={"n": 1}), None)
    second = await put_over(store, Record(kind=KIND, key="a", data={"n": 2}), first.version)
    assert second is not None
    assert await put_over(store, Record(kind=KIND, key="a", data={"n": 3}), first.version) is None
    assert not await delete_record(store, first)
    assert await delete_record(store, second)
    assert await store.get(KIND, "a") is None


async def test_a_change_is_made_again_of_what_another_stored_meanwhile():
    store = records()
    seen: list[int] = []

    class Interrupted:
        """Lets somebody else write between the first reading and writing."""

        async def get(self, kind: str, key: str) -> Record | None:
            found = await store.get(kind, key)
            if not seen:
                await store.put(Record(kind=KIND, key="a", data={"n": 10}), expected_version=None)
            return found

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    def change(found: Record | None) -> Mapping[str, Any]:
        seen.append(found.data["n"] if found else 0)
        return {"n": seen[-1] + 1}

    stored = await change_record(Interrupted(), KIND, "a", change)
    assert (seen, stored and stored.data) == ([0, 10], {"n": 11})
    with pytest.raises(RecordConflict):
        await change_record(store, KIND, "b", lambda _: {"n": 0}, tries=0)
    assert await change_record(store, KIND, "b", lambda _: None) is None


PROBE = "import sys; from graphrag.leases import *; print(is_local_process_dead(sys.argv[1], new_owner()))"
NAME = "from graphrag.leases import new_owner; print(new_owner())"


def python(*arguments: str, before: tuple[str, ...] = ()) -> str:
    done = subprocess.run(
        [*before, sys.executable, "-c", *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_process_that_ended_here_is_known_to_have_and_one_that_runs_is_not() -> None:
    assert is_local_process_dead(python(NAME), new_owner())
    assert python(PROBE, new_owner()) == "False"


@pytest.mark.slow
def test_a_process_of_another_pid_namespace_is_never_called_dead() -> None:
    apart = ("unshare", "--pid", "--fork")
    if (
        shutil.which("unshare") is None
        or subprocess.run([*apart, "true"], capture_output=True).returncode
    ):
        pytest.skip("this machine makes no PID namespaces")
    assert python(PROBE, new_owner(), before=apart) == "False"
    assert not is_local_process_dead(python(NAME, before=apart), new_owner())


QUEUED = "webhook"


class Queue(DeliveryQueue):
    """One of a server, with a clock of its own."""

    def __init__(self, database: Database) -> None:
        self.now = 1_700_000_000_000
        super().__init__(
            database.records(ROOT_WORKSPACE), QUEUED, since="createdTime", clock=lambda: self.now
        )

    async def read(self, key: str) -> Record:
        found = await self.records.get(QUEUED, key)
        assert found is not None
        return found


async def test_while_one_is_tried_no_other_tries_it_until_its_sender_must_be_gone(
    memory: Database,
) -> None:
    first = Queue(memory)
    second = Queue(memory)
    stored = await first.add("k", {"inWorkspace": "w"})
    begun = asyncio.Event()
    goes_on = asyncio.Event()

    async def hangs() -> Mapping[str, Any]:
        begun.set()
        await goes_on.wait()
        return {"status": "done"}

    async def fails() -> Mapping[str, Any]:
        return {"error": "ConnectError"}

    trying = asyncio.create_task(first.attempt(stored, hangs))
    await begun.wait()
    assert await second.attempt(stored, fails) is None
    assert await second.retry(await second.read("k")) is None
    second.now += CLAIMED_MS
    tried = await second.attempt(await second.read("k"), fails)
    assert (tried["attempts"], tried["nextTime"]) == (2, second.now + DELAYS_MS[1])
    goes_on.set()
    await trying  # it came too late to say that it is done
    assert (await second.read("k")).data == tried
    again = await second.retry(await second.read("k"))
    assert (again.data["attempts"], again.data["nextTime"]) == (0, second.now)


@pytest.mark.parametrize(
    ("status", "stays"), [("done", False), ("refused", False), ("of_later", True)]
)
async def test_what_is_over_is_removed_and_what_a_later_program_stored_is_not(
    memory: Database, status: str, stays: bool
) -> None:
    queue = Queue(memory)
    seen = list[str]()
    await queue.change(await queue.add("k", {"inWorkspace": "w"}), {"status": status})
    queue.now += KEPT_MS

    async def send(records: Any) -> None:
        seen.extend(record.key for record in records)

    assert await queue.send_due(send) == 1
    assert (await queue.records.get(QUEUED, "k") is not None, seen) == (stays, ["k"] * stays)
