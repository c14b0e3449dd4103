"""All graphs of a workspace that share a file with those of another: scores are as if they
had their own.
"""

from pathlib import Path

import pytest

from datasources.everywhere import WideHits
from datasources.search import SearchRequest
from datasources.sqlite import Limits, SqliteDatabase, everywhere
from datasources.types import Mutation
from tests.contracts.samples import OTHER, WORKSPACE, a_graph, a_node

LARGE = 7


async def _found(path: Path, *, others: bool) -> tuple[WideHits, list[str]]:
    async with SqliteDatabase(path, limits=Limits(held=10)) as database:
        for number in range(12):
            workspace = OTHER if number % 3 == 1 and number != LARGE else WORKSPACE
            if workspace == OTHER and not others:
                continue
            count = 11 if number == LARGE else 1 + number % 4
            text = "green bills" if number in (4, 6) else f"green {'bush ' * number}"
            nodes = [a_node(f"n{i}", f"g{number}", data={"name": text}) for i in range(count)]
            made = Mutation(graph_key=f"g{number}", put_nodes=nodes)
            await database.source(workspace).create_graph(a_graph(f"g{number}", workspace), made)
        source = database.source(WORKSPACE)
        await source.delete_graph("g9")
        found = await source.search_everywhere(SearchRequest(query="green bills", limit=100))
        some = await source.search_everywhere(
            SearchRequest(query="green", limit=100), ["g2", "g6", "g4"]
        )
        return found, sorted({graph for graph, _ in some.names})


@pytest.mark.parametrize("passed", [0, 2, 1_000])
async def test_graphs_of_others_and_large_ones_are_passed_over(
    tmp_path: Path, passed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(everywhere, "MAX_PASSED", passed)
    alone, _ = await _found(tmp_path / "alone.db", others=False)
    found, some = await _found(tmp_path / "shared.db", others=True)
    assert found.text == alone.text
    assert found.name == alone.name
    assert found.text[0][0][0] == "g6"
    assert {graph for graph, _ in found.names} == {f"g{n}" for n in (0, 2, 3, 5, 6, LARGE, 8, 11)}
    assert some == ["g2", "g6"]
