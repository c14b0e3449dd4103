"""A file is imported again while people edit its graph: they see what it changed, and keep what they did."""

from __future__ import annotations

import orjson

from graphrag.app.wiring import open_shared
from graphrag.approvals import Person
from graphrag.config import Settings
from graphrag.importers.exchange import import_bytes
from graphrag.live import LiveGraphs
from graphrag.live.instruction_batch import apply_instructions
from tests.graphrag.importers.helpers import n8n, n8n_node
from tests.graphrag.live.helpers import NEVER, heard, rename

EVE = Person("eve", "editor", "test")


def _file(*names: str, **parameters: int) -> bytes:
    return orjson.dumps(n8n([n8n_node(name, parameters=parameters) for name in names]))


async def test_editors_see_an_import_at_once_and_keep_what_they_have_not_saved() -> None:
    settings = Settings(db="memory:", workspace="test", embeddings="none")
    async with (
        open_shared(settings) as shared,
        LiveGraphs(shared.database.source, shared.database.records, options=NEVER) as graphs,
    ):
        services = shared.services("test", live_graphs=graphs)
        await import_bytes(services.approvals, _file("A", "B"), EVE, file_name="f.json", graph_key="g")
        live = await graphs.open("test", "g")
        ann = live.join("ann", "0")
        await live.edit("ann", ann, apply_instructions, [rename("a", "Mine")])
        assert live.has_unsaved
        second = _file("A", "B", "C", x=1)
        outcome = await import_bytes(services.approvals, second, EVE, file_name="f.json", graph_key="g")
        assert (outcome.action, outcome.kept, outcome.conflicts) == ("updated", 1, 0)
        now = {node.key: node.data for node in live.nodes}
        assert now["a"] == {"name": "Mine", "parameters": {"x": 1}}
        assert set(now) == {"a", "b", "c"}
        assert {node.key: node.data for node in await shared.database.source("test").get_nodes("g")} == now
        sent = orjson.dumps(heard(ann)).decode()
        assert '"c"' in sent
        assert '"x"' in sent
        await services.approvals.undo("g", by=Person("rita", "reviewer", "test"))
        assert {node.key: node.data["name"] for node in live.nodes} == {"a": "Mine", "b": "B"}
