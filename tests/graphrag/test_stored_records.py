from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from datasources.base import Record, RecordStore
from datasources.errors import RecordConflict
from datasources.mock import MemoryDatabase
from graphrag.leases import is_local_process_dead, new_owner
from graphrag.stored_records import change_record, delete_record, put_over

KIND = "lease"


def records() -> RecordStore:
    return MemoryDatabase().records("default")


async def test_a_record_is_put_over_the_version_that_was_read_alone():
    store = records()
    first = await put_over(store, Record(kind=KIND, key="a", data={"n": 1}), None)
    assert first is not None
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
    done = subprocess.run([*before, sys.executable, "-c", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_process_that_ended_here_is_known_to_have_and_one_that_runs_is_not() -> None:
    assert is_local_process_dead(python(NAME), new_owner())
    assert python(PROBE, new_owner()) == "False"


@pytest.mark.slow
def test_a_process_of_another_pid_namespace_is_never_called_dead() -> None:
    apart = ("unshare", "--pid", "--fork")
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("this machine makes no PID namespaces")
    assert python(PROBE, new_owner(), before=apart) == "False"
    assert not is_local_process_dead(python(NAME, before=apart), new_owner())
