"""Killed at any numbered step, an approval is pending, applied once, or ended with its reason."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from datasources.types import ROOT_WORKSPACE, Mutation
from graphrag.approvals import Approvals, Approve
from graphrag.delivery_queue import CLAIMED_MS
from graphrag.importers.exchange import export_document
from graphrag.leases import now_ms
from server.webhook_target import WebhookTarget
from server.webhooks import KIND, Webhooks
from tests.concurrency import workers
from tests.concurrency.import_workers import WORKSPACE, import_version
from tests.concurrency.killing import killing, last_write
from tests.concurrency.webhook_workers import SAVES, save_and_send
from tests.datasources.sqlite.helpers import start
from tests.graphrag.approvals.helpers import EDITOR, FLOW, REVIEWER, Bench, a_bench
from tests.support.chosen_database import CHOSEN, database_in
from tests.support.loopback_api import LoopbackApi, loopback_api

# How many writes a decision gets done before it dies, and what is found: each is one transaction.
STEPS = [
    (what, writes, status if writes else "pending")
    for what, status in (
        ("approve", "applied"),
        ("reject", "rejected"),
        ("stale", "stale"),
        ("expire", "expired"),
    )
    for writes in (0, 1)
]


@pytest.fixture(params=["sqlite", "arango"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a database of one's own is."""
    if request.param == "sqlite":
        return str(tmp_path / "graphs.db")
    return request.getfixturevalue("arango_address")


async def _prepared(where: str, what: str) -> tuple[str, int, bytes]:
    """Store a proposal (for an undo: applied); return its id, the graph's revision and content."""
    async with workers.database_at(where) as database:
        bench = await a_bench(database, clock=now_ms)
        approval = await bench.propose("update_node", nodeKey="b", changes={"data.name": "Other"})
        if what == "undo":
            await bench.approvals().decide(approval.id, Approve(), EDITOR)
        if what == "stale":
            await bench.rename("b", "Renamed meanwhile")
        return approval.id, await bench.revision(), await bench.stored_bytes()


async def _die(where: str, approval_id: str, what: str, writes: int) -> None:
    process = start(workers.decide_and_die, where, approval_id, what, writes)
    output, _ = await asyncio.to_thread(process.communicate)
    assert process.returncode == -9, output
    is_last = writes == 1
    assert output == ("unharmed 0\n" if is_last else "")  # the numbers above are those of the code


async def _events(approvals: Approvals) -> list[str]:
    assert (await approvals.audit.verify()).is_sound
    return [entry.facts["event"] for entry in await approvals.audit.entries()]


@pytest.mark.slow
@pytest.mark.parametrize(("what", "writes", "status"), STEPS)
async def test_after_a_kill_every_approval_is_where_it_belongs(
    where: str, what: str, writes: int, status: str
) -> None:
    approval_id, revision, content = await _prepared(where, what)
    await _die(where, approval_id, what, writes)
    async with workers.database_at(where) as database:
        bench = Bench(database=database, clock=now_ms)
        approvals = bench.approvals()
        approval = await approvals.get(approval_id, REVIEWER)
        assert approval.status == status
        applied = int(status == "applied")
        assert await bench.revision() == revision + applied
        assert (await bench.stored_bytes() == content) is not bool(applied)
        assert await _events(approvals) == ([] if status == "pending" else [status])
        assert await approvals.expire_due(limit=10) == []
        if status != "pending":
            return
        decided = await approvals.decide(approval_id, Approve(), REVIEWER)
        assert decided.status == ("stale" if what == "stale" else "applied")
        assert await bench.revision() == revision + (what != "stale")
        assert await _events(approvals) == [decided.status]


@pytest.mark.slow
@pytest.mark.parametrize("writes", [0, 1])
async def test_a_killed_undo_is_done_or_not(where: str, writes: int) -> None:
    approval_id, revision, content = await _prepared(where, "undo")
    await _die(where, approval_id, "undo", writes)
    async with workers.database_at(where) as database:
        bench = Bench(database=database, clock=now_ms)
        approvals = bench.approvals()
        approval = await approvals.get(approval_id, REVIEWER)
        assert (approval.undone_by is not None) is bool(writes)
        assert await bench.revision() == revision + writes
        assert (await bench.stored_bytes() == content) is not bool(writes)
        if not writes:
            await approvals.undo(FLOW, approval_id, by=REVIEWER)
        assert await _events(approvals) == ["undone", "applied"]


KILLS = 50
"""Of each of the two imports: among all writes evenly, the first and the last included."""


async def _rename(path: Path) -> None:
    """Change what the second version of the file changes, too."""
    async with database_in(path) as database:
        source = database.source(WORKSPACE)
        node = next(n for n in await source.get_nodes("flow") if n.data["name"] == "First 1")
        changed = node.replace(data={**node.data, "name": "Ours"})
        await source.apply(Mutation(graph_key="flow", put_nodes=[changed]))


async def _stored(path: Path) -> object:
    """Return all that an import stores, without what is another each time."""
    async with database_in(path) as database:
        source = database.source(WORKSPACE)
        records = database.records(WORKSPACE)
        graphs = [graph.key for graph in await source.list_graphs()]
        approvals = Approvals(source, records)
        assert (await approvals.audit.verify()).is_sound
        kept = await records.get("imports", "flow")
        exported = await export_document(source, "flow") if graphs else {}
        times = ("createdTime", "lastUpdatedTime")
        graph = {k: v for k, v in exported.pop("graph", {}).items() if k not in times}
        return {
            "graphs": graphs,
            "graph": graph,
            "content": exported,
            "revision": (await source.get_graph("flow")).revision if graphs else None,
            "kept": kept.data["source"] if kept else None,
            "approvals": sorted(r.data["status"] for r in await records.query("approval")),
            "audit": [entry.facts["event"] for entry in await approvals.audit.entries()],
        }


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2], ids=["first import", "merge with a conflict"])
async def test_an_import_killed_at_any_write_is_whole_or_absent(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "start.db"
    async with database_in(path):
        pass
    if version == 2:
        await import_version(path, 1)
        await _rename(path)
    before = await _stored(path)
    async with killing(import_version, tmp_path, version) as killed_at:
        last = await last_write(killed_at)
        after = await _stored(tmp_path / f"{last + 1}.db")
        found: list[bool] = []
        # A server is told in few statements what takes a file many.
        kills = min(KILLS, last)
        for number in range(kills):
            write = 1 + round(number * (last - 1) / (kills - 1))
            assert await killed_at(write)
            stored = await _stored(tmp_path / f"{write}.db")
            assert stored in (before, after), f"killed at write {write} of {last}"
            found.append(stored == after)
    assert last > KILLS or (CHOSEN and last > 3)
    print(
        f"{len(found)} kills at {last} writes: {sum(found)} whole, {len(found) - sum(found)} as before"
    )
    assert before != after
    assert not all(found)


async def _sent_by_another(path: Path, api: LoopbackApi) -> list[dict[str, int]]:
    """Send what is left, when it must be due; return the ids of what came, each with its saves."""
    async with database_in(path) as database:
        records = database.records(ROOT_WORKSPACE)
        target = WebhookTarget(url=f"{api.url}/hook")
        hooks = Webhooks(target, records, clock=lambda: now_ms() + CLAIMED_MS)
        hooks.start()
        async with asyncio.timeout(60):
            while any(each.data["status"] != "done" for each in await records.query(KIND)):
                await hooks.send_due()
        await hooks.aclose()
    bodies = [
        (each.headers["webhook-id"], json.loads(each.body)["nodesSaved"]) for each in api.arrived
    ]
    return [{key: saves} for key, saves in dict.fromkeys(bodies)]


@pytest.mark.slow
async def test_what_is_gathered_at_a_kill_is_sent_as_one_request(tmp_path: Path) -> None:
    async with database_in(tmp_path / "start.db"):
        pass
    found: list[int] = []
    async with (
        loopback_api() as api,
        killing(save_and_send, tmp_path, f"{api.url}/hook") as killed_at,
    ):
        api.answers = {"POST /hook": {}}
        last = await last_write(killed_at)
        for write in range(1, last + 1):
            api.arrived.clear()
            assert await killed_at(write)
            path = tmp_path / f"{write}.db"
            noted = path.with_suffix(".saves")
            stored = len(noted.read_text(encoding="utf-8")) if noted.exists() else 0
            sent = await _sent_by_another(path, api)
            assert len(sent) <= 1, f"killed at write {write} of {last}: {sent}"
            saves = sum(each for one in sent for each in one.values())
            assert saves in (stored, stored + 1), f"killed at write {write} of {last}"
            found.append(saves)
    assert set(found) == set(range(SAVES + 1))
    print(f"killed at each of {last} writes: {found}")
