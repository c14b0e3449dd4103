"""One history of edits, decisions, imports and undos: who set what, and the graph as it was
at any time.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest

from graphrag.app.wiring import Services, open_shared
from graphrag.approvals import Approve, Person, ProposingSession
from graphrag.config import Settings
from graphrag.importers.exchange import import_bytes
from graphrag.leases import now_ms
from graphrag.live import EditRefused, LiveGraph, LiveGraphs, Revision, Revisions
from graphrag.live.blame import blame
from graphrag.live.edits import create_elements, create_sheet, delete_elements, rename_sheet
from graphrag.live.instruction_batch import apply_instructions
from graphrag.live.past_graph import PastGraph, graph_at, present
from graphrag.live.restoring import as_action, restore
from tests.graphrag.importers.helpers import n8n, n8n_node
from tests.graphrag.live.helpers import NEVER, instruct, rename
from tests.support.agents import an_ask
from tests.support.chosen_database import address_in
from tests.support.waiting import another_moment
from tools.actions.field_changes import json_document

EVE = Person("eve", "editor", "test")
RITA = Person("rita", "reviewer", "test")
RUN = ProposingSession(kind="automation", automation_id="au_1", scheduled_time=5, seed_version=2)


@dataclass
class Setting:
    services: Services
    records: Any
    graphs: LiveGraphs
    live: LiveGraph = field(init=False)

    async def does(self, user: str, *instructions: Any) -> str:
        return str((await self.live.edit(user, None, apply_instructions, instructions)).timestamp)

    async def imports(self, *names: str, **parameters: int) -> None:
        file = orjson.dumps(n8n([n8n_node(name, parameters=parameters) for name in names]))
        await import_bytes(self.services.approvals, file, EVE, file_name="f.json", graph_key="g")

    async def decides(self, node: str, name: str, session: ProposingSession | None = None) -> str:
        made = await self.services.approvals.propose(
            {"type": "update_node", "payload": {"nodeKey": node, "changes": {"data.name": name}}},
            an_ask(
                "g", EVE, turn=3, reason=f"to be {name}", **{"session": session} if session else {}
            ),
        )
        done = await self.services.approvals.decide(made.id, Approve("fine"), RITA)
        assert done.status == "applied"
        return made.id

    def plain(self) -> dict[str, Any]:
        return _plain(self.live.document().sheets_list, self.live.nodes, self.live.edges)

    async def at(self, moment: int, *, live: bool = True) -> PastGraph:
        return await graph_at(
            self.services.source, self.records, self.live if live else None, "g", moment
        )

    async def blamed(self, node: str) -> dict[str, Revision]:
        now = await present(self.services.source, self.live, "g")
        found, _ = await blame(self.records, now, now.state.nodes[node])
        return {".".join(one.field): one.revision for one in found}


def _plain(sheets: Mapping[str, str], nodes: Sequence[Any], edges: Sequence[Any]) -> dict[str, Any]:
    by_key = {one.key: json_document(one) for one in (*nodes, *edges)}
    return {"sheets": dict(sheets), "documents": dict(sorted(by_key.items()))}


def _of(past: PastGraph) -> dict[str, Any]:
    state = past.state
    return _plain(state.graph.sheets_list, [*state.iter_nodes()], [*state.iter_edges()])


@asynccontextmanager
async def setting(db: str = "memory:", options: Any = NEVER) -> AsyncIterator[Setting]:
    settings = Settings(db=db, workspace="test", embeddings="none")
    async with (
        open_shared(settings) as shared,
        LiveGraphs(shared.database.source, shared.database.records, options=options) as graphs,
    ):
        services = shared.services("test", live_graphs=graphs)
        it = Setting(services, shared.database.records("test"), graphs)
        await it.imports("A", "B", "C")
        it.live = await graphs.open("test", "g")
        yield it


@pytest.fixture(params=["memory", "sqlite", "arango"])
def db(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    if request.param == "arango":
        return request.getfixturevalue("arango_address")
    return "memory:" if request.param == "memory" else address_in(tmp_path / "n.db")


async def test_the_graph_is_as_it_was_at_any_time_and_each_field_has_its_author(db: str) -> None:
    async with setting(db) as it:
        moments: list[tuple[int, dict[str, Any]]] = []

        async def mark() -> None:
            await another_moment()
            moments.append((now_ms(), it.plain()))
            await another_moment()

        node = {**json_document(it.live.nodes[0]), "_key": "new"}
        edge = {"_key": "e1", "graphKey": "g", "sheet": "0", "source": "a", "target": "new"}
        edge |= {"sourceHandle": "R", "sourcePoint": "0", "targetHandle": "L", "targetPoint": "0"}
        await mark()
        first = await it.does("ann", rename("a", "By hand"), instruct("a", 1, ["posX"], v=7))
        await mark()
        approved = await it.decides("a", "Approved")
        await mark()
        await it.live.edit("bob", None, create_elements, "0", [node], [edge])
        await it.live.edit("bob", None, create_sheet, "more")
        await mark()
        run = await it.decides("b", "Of a run", RUN)
        await mark()
        await it.live.save()
        undo = await it.services.approvals.undo("g", approved, by=RITA)
        await mark()
        redo = await it.services.approvals.undo("g", undo.id, by=RITA)
        await mark()
        await it.imports("A", "B", "C", "D", x=1)
        await mark()
        await it.live.edit("bob", None, rename_sheet, "1", "other")
        gone = await it.live.edit("bob", None, delete_elements, "0", ["new", "c"], [])
        await mark()
        await it.live.undo_edit(str(gone.timestamp), "ann")
        await mark()
        await it.does("ann", instruct("c", 2, ["data", "parameters"]))
        again = await it.does("bob", instruct("c", 1, ["data", "parameters"], v={"x": 2}))
        await mark()
        for at, was in moments:
            past = await it.at(at)
            assert (_of(past), past.at, past.gaps) == (was, at, 0)
        a, b, c = [await it.blamed(key) for key in "abc"]
        assert (a["data.name"].id, a["data.name"].kind, a["data.name"].by) == (
            redo.id,
            "undo",
            "rita",
        )
        assert (a["posX"].id, a["posX"].by, a["posY"].kind) == (first, "ann", "created")
        assert (a["data.parameters.x"].kind, a["data.parameters.x"].by) == ("import", "eve")
        assert (b["data.name"].id, b["data.name"].facts["automationId"]) == (run, "au_1")
        assert (b["data.name"].approval.reason, b["data.name"].facts["turn"]) == (
            "to be Of a run",
            3,
        )
        assert (c["data.parameters.x"].id, c["data.parameters.x"].by) == (again, "bob")
        assert (c["data.name"].by, c["data.name"].kind) == (
            "ann",
            "undo",
        )  # it came back by an undo
        history = Revisions(it.records, "g", it.live.unsaved_history)
        kinds = [one.kind async for one in history.newest_first()]
        assert kinds == [
            *("edit", "edit", "undo", "edit", "edit", "import"),
            *("undo", "undo", "change", "edit", "edit", "change", "edit", "created"),
        ]
        await it.live.close()
        past = await it.at(moments[1][0], live=False)  # and once it is stored
        assert _of(past) == moments[1][1]


async def test_two_who_edit_at_once_are_known_apart_and_a_restore_leaves_what_comes_after() -> None:
    async with setting() as it:
        before = it.plain()
        at = now_ms()
        await another_moment()
        edits = [it.does(f"u{i % 2}", instruct("ab"[i % 2], 1, ["posX"], v=i)) for i in range(100)]
        await asyncio.gather(*edits)
        assert [(await it.blamed(key))["posX"].by for key in "ab"] == ["u0", "u1"]
        await it.live.edit("bob", None, delete_elements, "0", ["c"], [])
        then = (await it.at(at)).state
        changed = it.plain()
        work = [
            it.does("ann", instruct("a", 1, ["posY"], v=-1)),
            it.live.edit("eve", None, restore, then, None),
            it.does("ann", instruct("b", 1, ["posY"], v=-2)),
        ]
        _, done, _ = await asyncio.gather(*work)
        wanted = {**before["documents"], "b": {**before["documents"]["b"], "posY": -2}}
        assert it.plain()["documents"] == wanted
        # in one step, but for what ann did after it
        await it.live.undo_edit(str(done.timestamp), "eve")
        changed["documents"]["a"]["posY"], changed["documents"]["b"]["posY"] = -1, -2
        assert it.plain() == changed
        await it.live.edit("eve", None, restore, then, ["c", "a"])
        assert it.plain()["documents"] == {**wanted, "b": it.plain()["documents"]["b"]}
        with pytest.raises(EditRefused, match="not changed since"):
            await it.live.edit("eve", None, restore, then, ["c"])
        with pytest.raises(EditRefused, match="no node"):
            await it.live.edit("eve", None, restore, then, ["never"])


async def test_a_restore_can_be_proposed_and_is_decided_like_any_change() -> None:
    async with setting() as it:
        before = it.plain()
        at = now_ms()
        await another_moment()
        await it.does("ann", rename("a", "Other"))
        await it.live.edit("ann", None, delete_elements, "0", ["b"], [])
        now = await present(it.services.source, it.live, "g")
        action = as_action(now.state, (await it.at(at)).state, None, "then")
        made = await it.services.approvals.propose(action, an_ask("g", EVE, model="person"))
        done = await it.services.approvals.decide(made.id, Approve(), RITA)
        assert done.status == "applied"
        assert it.plain() == before


async def test_it_is_said_how_far_back_the_history_reaches() -> None:
    async with setting(options=replace(NEVER, history_bytes=100_000)) as it:
        begin = now_ms()
        for number in range(8):
            await it.does("ann", rename("a", f"{number}" * 40_000))
            await it.live.save()
        past = await it.at(begin)
        assert past.at > begin
        assert past.gaps == 0
        kept = next(node for node in past.state.iter_nodes() if node.key == "a").data["name"]
        assert kept[0] in "1234567"
        fields = await it.blamed("a")
        assert fields["data.name"].by == "ann"
        assert "posY" not in fields  # who set it is deleted; no one else is named instead
        history = Revisions(it.records, "g", ())
        kinds = [one.kind async for one in history.newest_first(past_cut=True)]
        assert kinds[-1] == "created"
        assert history.cut_at == past.at + 1


@pytest.mark.slow
async def test_two_thousand_revisions_of_a_thousand_nodes_are_taken_back_in_time(
    tmp_path: Any,
) -> None:
    async with setting(address_in(tmp_path / "n.db")) as it:
        raw = json_document(it.live.nodes[0])
        made = [{**raw, "_key": f"n{i}"} for i in range(1000)]
        await it.live.edit("ann", None, create_elements, "0", made, [])
        at = now_ms()
        was = it.plain()
        await another_moment()
        for number in range(2000):
            await it.does("ann", instruct(f"n{number % 1000}", 1, ["posX"], v=number))
            if number % 100 == 99:
                await it.live.save()
        worst = 0.0
        began = time.perf_counter()
        work = asyncio.ensure_future(it.at(at))
        while not work.done():
            since = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - since)
        took = time.perf_counter() - began
        print(
            f"2,000 revisions, 1,000 nodes: {took * 1000:.0f} ms, loop held {worst * 1000:.0f} ms"
        )
        assert _of(await work) == was
        assert took < 5
