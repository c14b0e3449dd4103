"""Files of imports are read outside the event loop, within limits that a refusal names."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import orjson
import pytest

from graphrag.importers import UnreadableWorkflow, dispatch, import_workflow, reading_files
from graphrag.importers.reading_files import SMALL_BYTES, read_file
from graphrag.workers import Workers, WorkersBusy
from tests.graphrag.importers.helpers import Workbench, n8n, n8n_node, to


def _file(**fields: Any) -> bytes:
    filled = n8n_node("A", parameters={"jsCode": "x" * SMALL_BYTES, "password": "hush"})
    return orjson.dumps(n8n([filled, n8n_node("B")], {"A": {"main": [[to("B")]]}}, **fields))


async def _read(raw: bytes) -> Any:
    return await read_file(raw, file_name="big.json", workspace="w")


@pytest.mark.slow
async def test_a_large_file_is_read_by_a_process_as_a_small_one_is_here() -> None:
    apart = await _read(_file())
    here = import_workflow(_file(), file_name="big.json", workspace="w")
    assert apart == here
    assert [node.to_json() for node in apart.nodes] == [node.to_json() for node in here.nodes]
    assert "password" in apart.report.lines()[0]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"nodes":[' + b'{"name":"a"},' * 100_000 + b'{"name":"a"}]}', "100,001 nodes, at most 100,000"),
        (b"[" + b"[]," * 9 + b"[]]", "10 values, at most 8 "),
        (b'{"nodes":' + b"[" * 101 + b"]" * 101 + b" " * SMALL_BYTES + b"}", "nested more than 100 levels"),
        (
            orjson.dumps(n8n([n8n_node("A")], {"A": {"main": [[to("A", index=i)] for i in range(9)]}})),
            "9 edges, at most 8",
        ),
    ],
    ids=["nodes", "values", "depth", "edges"],
)
@pytest.mark.slow
async def test_a_bound_that_is_passed_is_named(
    raw: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "most 8" in reason:
        monkeypatch.setattr(dispatch, "MAX_EDGES", 8)
        monkeypatch.setattr(dispatch, "MAX_VALUES", 8 if "values" in reason else 1000)
    with pytest.raises(UnreadableWorkflow, match=reason):
        await _read(raw)


async def test_a_file_that_takes_too_long_is_refused_and_its_process_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading_files, "TIME_LIMIT_S", 1)
    monkeypatch.setattr(reading_files, "_START", "import time; time.sleep(600)")
    children: list[Any] = []
    with pytest.raises(UnreadableWorkflow, match="longer than 1 s"):
        reading_files._read_apart(_file(), {"file_name": "f"}, children)  # pyright: ignore[reportPrivateUsage]
    assert children[0].returncode == -9


async def test_a_process_that_dies_of_a_file_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_files, "_START", "import os; os.abort()")
    with pytest.raises(UnreadableWorkflow, match="2 GiB of memory"):
        await _read(_file())


@pytest.mark.slow
async def test_one_import_too_many_is_refused_for_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_files, "_workers", Workers(threads=1, waiting=1))
    done = await asyncio.gather(*(_read(_file()) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in done if isinstance(one, Exception)] == [WorkersBusy]


async def test_the_process_ends_when_nobody_waits_for_it_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_files, "_START", "import time; time.sleep(600)")
    children: list[Any] = []
    started = asyncio.Event()
    loop = asyncio.get_running_loop()
    popen = reading_files.subprocess.Popen

    def noted(*args: Any, **more: Any) -> Any:
        children.append(popen(*args, **more))
        loop.call_soon_threadsafe(started.set)
        return children[-1]

    monkeypatch.setattr(reading_files.subprocess, "Popen", noted)
    reading = asyncio.create_task(_read(_file()))
    await asyncio.wait_for(started.wait(), 60)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await asyncio.to_thread(children[0].wait, 60) == -9


@pytest.mark.slow
async def test_searching_for_cycles_goes_on_after_the_last_of_several_large_imports() -> None:
    bench = Workbench()
    await asyncio.gather(*(bench.take(_file(), graph_key=key) for key in "ab"))
    assert gc.isenabled()
    with pytest.raises(UnreadableWorkflow):
        await bench.take(b"[" * SMALL_BYTES * 2)
    assert gc.isenabled()
