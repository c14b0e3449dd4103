"""Keys of graphs: which of them an address can name."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, unquote, urljoin

import orjson
from hypothesis import given
from hypothesis import strategies as st

from graphrag.importers.exchange import import_file
from graphrag.importers.readable_keys import derive_graph_key, key_fault
from tests.graphrag.importers.helpers import Workbench
from tests.support.each_row import each_row


@each_row(
    "key", ["", ".", "..", "...", "a/b", "/", "a\\b", "a%2fb", "%00", "a\x00", "a\x7f", " a", "a ", "k" * 201]
)
def test_a_key_that_an_address_cannot_carry_has_a_fault(key: str) -> None:
    assert key_fault(key)


@given(key=st.text(min_size=1, max_size=40) | st.text(alphabet="a./%2F\\ #?é", min_size=1, max_size=6))
def test_a_key_without_fault_is_one_part_of_an_address_however_often_it_is_decoded(key: str) -> None:
    if key_fault(key) is None:
        base = "http://127.0.0.1/api/graphs/"
        at = urljoin(base, quote(key, safe=""))
        assert at.startswith(base)
        assert unquote(at.removeprefix(base)) == unquote(unquote(at.removeprefix(base))) == key
        assert "/" not in key


@given(name=st.text(max_size=30), identity=st.none() | st.text(max_size=10), file_name=st.text(max_size=30))
def test_a_key_made_from_names_has_no_fault(name: str, identity: str | None, file_name: str) -> None:
    assert key_fault(derive_graph_key(name=name, identity=identity, file_name=file_name)) is None


async def test_a_file_whose_graph_has_such_a_key_is_refused_until_another_is_named(tmp_path: Path) -> None:
    bench, file = Workbench(workspace="w"), tmp_path / "graph.json"
    graph = {"_key": "../a", "name": "A", "workspace": "w"}
    file.write_bytes(orjson.dumps({"graph": graph, "nodes": [], "edges": [], "configs": []}))
    refused = (await import_file(bench.approvals, file, bench.person)).refused
    assert refused is not None
    assert "'../a'" in refused
    assert "choose another key" in refused
    assert await bench.source.list_graphs() == []
    assert (await import_file(bench.approvals, file, bench.person, graph_key="a")).action == "created"


async def test_a_graph_that_has_such_a_key_already_is_still_brought_up_to_date(tmp_path: Path) -> None:
    bench, file = Workbench(workspace="w"), tmp_path / "graph.json"
    document = {
        "graph": {"_key": "a", "name": "A", "workspace": "w"},
        "nodes": [],
        "edges": [],
        "configs": [],
    }
    file.write_bytes(orjson.dumps(document))
    await import_file(bench.approvals, file, bench.person)
    [graph] = await bench.source.list_graphs()
    await bench.source.create_graph(graph.replace(key="old/key"))
    document["graph"] = {"_key": "old/key", "name": "Renamed", "workspace": "w"}
    file.write_bytes(orjson.dumps(document))
    done = await import_file(bench.approvals, file, bench.person, replaces=True)
    assert (done.action, (await bench.source.get_graph("old/key")).name) == ("updated", "Renamed")
