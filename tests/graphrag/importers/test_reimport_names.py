"""A file that comes back with a renamed node keeps every reference by name, also
those made here.
"""

from typing import Any

import pytest

from datasources.types import Node
from graphrag.approvals import Approve
from graphrag.importers.exchange import export_file
from tests.graphrag.importers.helpers import KEY, Workbench, imported, n8n, n8n_node, put
from tests.support.agents import an_ask


def reader(name: str, text: str, **fields: Any) -> dict[str, Any]:
    return n8n_node(name, parameters={"url": text}, **fields)


def flow(fetch: str = "Fetch", text: str | None = None, **more: Any) -> dict[str, Any]:
    """Returns a workflow whose second node refers to the first."""
    text = f"={{{{ $('{fetch}').item.json.id }}}}" if text is None else text
    return n8n([n8n_node(fetch, id="1"), reader("Use", text, id="2", **more)])


def made(name: str, text: str, **more: Any) -> Node:
    document = {"data": {"name": name, "parameters": {"text": [text]}}, **more}
    return Node.model_validate(
        {"_key": name.lower(), "graphKey": KEY, "type": "n8n-nodes-base.set", **document}
    )


async def rename(bench: Workbench, key: str, name: str) -> None:
    action = {"type": "update_node", "payload": {"nodeKey": key, "changes": {"data.name": name}}}
    proposed = await bench.approvals.propose(action, an_ask(KEY, bench.person))
    assert (await bench.approvals.decide(proposed.id, Approve(), bench.person)).status == "applied"


async def texts(bench: Workbench) -> dict[str, Any]:
    nodes = (await bench.content(KEY)).nodes
    return {key: (node.data.get("parameters"), node.process) for key, node in nodes.items()}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("={{ $('Fetch').item.json.id }}", "={{ $('Load it').item.json.id }}"),
        ('={{ $node["Fetch"].json.id }}', '={{ $node["Load it"].json.id }}'),
        ("={{ $node.Fetch.json.id }}", "={{ $node['Load it'].json.id }}"),
        ("={{ $items(`Fetch`)[0] }}", "={{ $items(`Load it`)[0] }}"),
        ('={"a": "{{ $(\\"Fetch\\").item }}"}', '={"a": "{{ $(\\"Load it\\").item }}"}'),
        ("The word Fetch alone", "The word Fetch alone"),
    ],
)
async def test_a_node_renamed_in_the_file_is_followed_by_what_was_made_here(
    before: str, after: str
) -> None:
    bench = await imported(flow())
    await put(bench, made("Ours", before, process=before))
    outcome = await bench.take(flow("Load it"))
    assert (await texts(bench))["ours"] == ({"text": [after]}, after)
    assert (outcome.conflicts, outcome.kept) == (0, 1)  # the node made here


async def test_a_text_that_people_changed_follows_and_is_no_conflict() -> None:
    bench = await imported(flow())
    use = (await bench.content(KEY)).nodes["use"]
    ours = {"url": "={{ $('Fetch').first().json.ours }}"}
    await put(bench, use.replace(data={**use.data, "parameters": ours}, pinned=True))
    outcome = await bench.take(flow("Load"))
    assert (await texts(bench))["use"] == ({"url": "={{ $('Load').first().json.ours }}"}, None)
    assert outcome.conflicts == 0
    again = await bench.take((await export_file(bench.approvals, KEY, "n8n")).document)
    assert (again.action, again.kept, again.conflicts) == ("unchanged", 0, 0)


async def test_a_node_renamed_here_is_followed_by_what_the_file_adds_or_changes() -> None:
    bench = await imported(flow())
    await rename(bench, "fetch", "Load")
    document = flow(text="={{ $('Fetch').item.json.other }}")
    document["nodes"].append(reader("New", '={{ $node["Fetch"].json.id }}', id="3"))
    outcome = await bench.take(document)
    found = await texts(bench)
    assert found["new"] == ({"url": '={{ $node["Load"].json.id }}'}, None)
    assert found["use"][0] == {"url": "={{ $('Load').item.json.other }}"}
    assert outcome.conflicts == 0


async def test_names_that_two_nodes_exchange_are_followed_each_once() -> None:
    bench = await imported(n8n([n8n_node("A", id="1"), n8n_node("B", id="2")]))
    await put(bench, made("Ours", "={{ $('A').item }} {{ $('B').item }}"))
    await bench.take(n8n([n8n_node("B", id="1"), n8n_node("A", id="2")]))
    assert (await texts(bench))["ours"][0] == {"text": ["={{ $('B').item }} {{ $('A').item }}"]}


@pytest.mark.parametrize("replaces", [True, False])
async def test_a_reference_that_the_file_itself_leaves_behind_stays_as_the_file_says(
    replaces: bool,
) -> None:
    bench = await imported(flow())
    old = "={{ $('Fetch').item.json.id }}"
    await bench.take(flow("Load", text=old), replaces=replaces)
    assert (await texts(bench))["use"] == ({"url": old}, None)


async def test_a_name_that_two_nodes_have_then_is_not_followed() -> None:
    bench = await imported(flow())
    await put(bench, made("Ours", "={{ $('Fetch').item }}"), made("Load", "x"))
    await bench.take(flow("Load"))
    assert (await texts(bench))["ours"][0] == {"text": ["={{ $('Fetch').item }}"]}


async def test_a_name_that_both_sides_gave_is_proposed_with_the_references_to_it() -> None:
    bench = await imported(flow())
    await put(bench, made("Ours", "={{ $('Fetch').item }}"))
    await rename(bench, "fetch", "Mine")
    outcome = await bench.take(flow("Theirs"))
    found = await texts(bench)
    assert (found["ours"][0], found["use"][0]) == (
        {"text": ["={{ $('Mine').item }}"]},
        {"url": "={{ $('Mine').item.json.id }}"},
    )
    assert (outcome.conflicts, bool(outcome.approval)) == (3, True)
    decided = await bench.approvals.decide(str(outcome.approval), Approve(), bench.person)
    assert decided.status == "applied"
    found = await texts(bench)
    assert found["ours"][0] == {"text": ["={{ $('Theirs').item }}"]}
    assert found["use"][0] == {"url": "={{ $('Theirs').item.json.id }}"}
    assert (await bench.content(KEY)).nodes["fetch"].data["name"] == "Theirs"
    await bench.approvals.undo(KEY, decided.id, by=bench.person)
    assert (await texts(bench))["ours"][0] == {"text": ["={{ $('Mine').item }}"]}


async def test_a_second_rename_in_the_file_is_followed_like_the_first() -> None:
    bench = await imported(flow())
    await put(bench, made("Ours", "={{ $('Fetch').item }}"))
    for name in ("Load", 'It\'s "read"', "Get"):
        await bench.take(flow(name, text=""))
    assert (await texts(bench))["ours"][0] == {"text": ["={{ $('Get').item }}"]}


async def test_the_same_holds_for_nodius_json_of_such_a_graph() -> None:
    bench = await imported(flow())
    document = (await export_file(bench.approvals, KEY, "nodius")).document
    await put(bench, made("Ours", "={{ $('Fetch').item }}"))
    fetch = next(node for node in document["nodes"] if node["_key"] == "fetch")
    fetch["data"]["name"] = "Load"
    await bench.take(document, graph_key=KEY)
    assert (await texts(bench))["ours"][0] == {"text": ["={{ $('Load').item }}"]}
