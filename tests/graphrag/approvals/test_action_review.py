"""Reviewing: what is shown is what is applied, what is undone is as before, and nothing dangles."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from cli.diff import preview_lines
from datasources.base import MutableGraphDataSource
from datasources.mock import MemoryDatabase, open_nba
from datasources.types import Mutation
from graphrag.approvals import ProposalRefused
from graphrag.approvals.action_review import Reviewed, changed_since, review, touched
from graphrag.approvals.applied_change import inverse_mutation
from graphrag.approvals.preview import document_change
from graphrag.approvals.wording import review_words
from graphrag.changes.field_diff import field_changes
from graphrag.i18n import LANGUAGES
from tests.contracts.samples import snapshot as seen
from tests.graphrag.approvals.helpers import FLOW, Bench
from tests.graphrag.approvals.test_policy import ACTIONS, propose, with_demand
from tests.tools.proposing import GRAPH, WORKSPACE, actions, make_graph
from tools.proposals import canonical_hash, parse_action, to_document
from tools.write_tools import Snapshot, load_snapshot
from tools.write_tools.graph_reads import with_vectors

MISSING = object()


def counted() -> Any:
    numbers = itertools.count()
    return lambda: f"ai_1700000000000_{next(numbers):06d}"


def tried(action: Any, before: Snapshot) -> Reviewed | ProposalRefused:
    try:
        return review(action, before, ids=counted())
    except ProposalRefused as refused:
        return refused


async def reviewed_on(
    source: MutableGraphDataSource, raw: dict[str, Any], graph: str = GRAPH
) -> tuple[Reviewed | ProposalRefused, Snapshot]:
    action = parse_action(raw)
    before = await load_snapshot(source, graph, action)
    return tried(action, before), before


def sure(found: Reviewed | ProposalRefused) -> Reviewed:
    assert isinstance(found, Reviewed)
    return found


def visible(state: dict[str, Any]) -> dict[str, Any]:
    """Leave out what every change counts up."""
    graph = {name: value for name, value in state["graph"].items() if name != "revision"}
    return {**state, "graph": graph}


def as_shown(state: dict[str, Any], preview: dict[str, Any]) -> dict[str, Any]:
    """Carry out a preview by hand, from what it shows alone."""
    documents: dict[str, dict[str, Any]] = {
        name: {d["_key"]: plain(d) for d in state[name]} for name in ("nodes", "edges", "types")
    }
    for name, kept in documents.items():
        for removed in preview.get(f"{name}Removed", ()):
            assert kept.pop(removed["_key"]) == removed
        for added in preview.get(f"{name}Added", ()):
            assert added["_key"] not in kept
            kept[added["_key"]] = added
        for change in [*preview.get(f"{name}Changed", ()), *preview.get(f"{name}Moved", ())]:
            for field in change["fields"]:
                carry_out(kept[change["key"]], field)
    return {
        name: sorted(kept.values(), key=lambda d: d["_key"]) for name, kept in documents.items()
    }


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def as_compared(preview: dict[str, Any]) -> Any:
    """Leave out what makes no proposal stale: a type's name, and where a node stood
    that is deleted.
    """
    ignored = {"nodesRemoved": ("posX", "posY")}
    return {
        title: [
            {
                name: value
                for name, value in item.items()
                if name not in ignored.get(title, ("name",))
            }
            for item in items
        ]
        for title, items in plain(preview).items()
    }


def carry_out(document: dict[str, Any], field: dict[str, Any]) -> None:
    *parents, last = field["path"]
    for part in parents:
        document = document[part]
    assert document.get(last, MISSING) == field.get("before", MISSING)
    if "after" in field:
        document[last] = field["after"]
    else:
        del document[last]


@given(actions)
async def test_what_is_shown_is_what_is_applied_and_undoing_restores_all(
    raw: dict[str, Any],
) -> None:
    source = (await make_graph()).source(WORKSPACE)
    before = await seen(source)
    found, snapshot = await reviewed_on(source, raw)
    assert await seen(source) == before, "a review writes nothing"
    if isinstance(found, ProposalRefused):
        event("refused")
        return
    event("reviewed")
    reviewed = found
    inverse = inverse_mutation(
        await with_vectors(source, snapshot, reviewed.mutation), reviewed.mutation
    )
    await source.apply(reviewed.mutation)
    after = await seen(source)
    shown = as_shown(before, dict(reviewed.preview))
    assert plain({name: after[name] for name in shown}) == plain(shown)
    nodes = {node["_key"]: node for node in after["nodes"]}
    for edge in after["edges"]:
        assert edge["source"] in nodes
        assert edge["target"] in nodes
        ends = (nodes[edge["source"]], nodes[edge["target"]])
        assert {document.get("sheet", "0") for document in (edge, *ends)} == {
            edge.get("sheet", "0")
        }
    await source.apply(inverse)
    assert visible(await seen(source)) == visible(before)


async def test_undoing_a_move_leaves_the_vector_alone() -> None:
    source = (await make_graph()).source(WORKSPACE)
    found, snapshot = await reviewed_on(
        source, {"type": "move_node", "payload": {"nodeKey": "b", "posX": 7, "posY": 7}}
    )
    mutation = sure(found).mutation
    before = await with_vectors(source, snapshot, mutation)
    assert list(before.vectors) == ["b"]
    assert inverse_mutation(before, mutation).put_vectors == []


def update(key: str, path: str) -> dict[str, Any]:
    return {"type": "update_node", "payload": {"nodeKey": key, "changes": {path: None}}}


@given(actions)
async def test_a_finalized_action_comes_out_the_same_again(raw: dict[str, Any]) -> None:
    source = (await make_graph()).source(WORKSPACE)
    found, before = await reviewed_on(source, raw)
    if isinstance(found, ProposalRefused):
        return
    final = to_document(found.action)
    again = review(final, before)
    assert again.mutation == found.mutation
    assert again.preview == found.preview
    assert canonical_hash(again.action) == canonical_hash(found.action)
    assert again.touched == found.touched


@example(
    update("c", "data.name"), update("c", "data.deep.a.b")
)  # the object itself is made by either
@given(actions, actions)
async def test_what_stays_valid_by_its_hashes_still_shows_the_same_after_another_change(
    raw: dict[str, Any], other: dict[str, Any]
) -> None:
    source = (await make_graph()).source(WORKSPACE)
    first, _ = await reviewed_on(source, raw)
    second, _ = await reviewed_on(source, other)
    if isinstance(first, ProposalRefused) or isinstance(second, ProposalRefused):
        return
    await source.apply(second.mutation)
    final = first.action
    now = await load_snapshot(source, GRAPH, final)
    if changed_since(first.touched, touched(final, now)):
        event("stale")
        return
    event("rebased")
    again = tried(final, now)
    if isinstance(again, ProposalRefused):  # another's new edge, say, may be the same as ours
        event("refused after all")
        return
    shown = [as_compared(dict(r.preview)) for r in (again, first)]
    assert shown[0] == shown[1]


async def the_preview(raw: dict[str, Any]) -> dict[str, Any]:
    found, _ = await reviewed_on(open_nba().source("test"), raw, "testgraph001")
    return dict(sure(found).preview)


async def test_deleting_a_node_lists_the_edges_that_go() -> None:
    shown = await the_preview({"type": "delete_node", "payload": {"nodeKey": "fetch-api"}})
    assert [node["_key"] for node in shown["nodesRemoved"]] == ["fetch-api"]
    assert [edge["_key"] for edge in shown["edgesRemoved"]] == [
        "edge-fetch-error",
        "edge-fetch-filter",
        "edge-root-fetch",
    ]


async def test_changed_code_is_shown_as_a_line_diff() -> None:
    patch = {"search": "gamesPlayed >= node.data.minGames", "replace": "gamesPlayed > 20"}
    raw = {"type": "update_node", "payload": {"nodeKey": "filter-active", "patches": [patch]}}
    found, _ = await reviewed_on(open_nba().source("test"), raw, "testgraph001")
    preview = sure(found).preview
    (change,) = preview["nodesChanged"]
    assert change["name"] == "Keep active players"
    (field,) = change["fields"]
    assert field["path"] == ["process"]
    lines = field["diff"].splitlines()
    assert [line for line in lines if line.startswith("+ ")] == [
        "+  (player) => player.isActive && player.team !== null && player.gamesPlayed > 20"
    ]
    assert len([line for line in lines if line.startswith("- ")]) == 1
    assert "> 20" in field["after"]
    assert "> 20" not in field["before"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (
            {"type": "move_node", "payload": {"nodeKey": "root", "posX": 100, "posY": 300}},
            "changes nothing",
        ),
        (
            {"type": "move_node", "payload": {"nodeKey": "gone", "posX": 1, "posY": 1}},
            "no node 'gone'",
        ),
        (
            {
                "type": "create_node_with_edges",
                "payload": {
                    "typeKey": "filter",
                    "edges": [
                        {
                            "direction": "in",
                            "handleId": "0",
                            "targetNodeKey": key,
                            "targetHandleId": "0",
                        }
                        for key in ("fetch-api", "sort-stats")
                    ],
                },
            },
            "an edge stays on one sheet",
        ),
    ],
)
async def test_what_cannot_be_done_is_said(raw: dict[str, Any], says: str) -> None:
    found, _ = await reviewed_on(open_nba().source("test"), raw, "testgraph001")
    assert isinstance(found, ProposalRefused)
    assert says in found.problems[0].what


async def test_a_batch_that_rewires_is_checked_as_a_whole() -> None:
    source = (await make_graph()).source(WORKSPACE)
    onward = {"sourceKey": "$new", "sourceHandle": "0", "targetKey": "c", "targetHandle": "0"}
    inward = {"direction": "in", "handleId": "0", "targetNodeKey": "b", "targetHandleId": "0"}
    created = {"typeKey": "task", "key": "$new", "edges": [inward]}
    inner = [
        {"type": "delete_edge", "payload": {"edgeKey": "bc"}},
        {"type": "create_node_with_edges", "payload": created},
    ]
    parts = [
        {"type": "create_edge", "payload": onward},
        {"type": "batch", "payload": {"actions": inner}},
    ]
    raw = {"type": "batch", "payload": {"actions": parts}}
    found, _ = await reviewed_on(source, raw)
    reviewed = sure(found)
    await source.apply(reviewed.mutation)
    (new,) = reviewed.mutation.put_nodes
    assert new.key.startswith("ai_")
    ends = {(edge.source, edge.target) for edge in await source.get_edges_of(GRAPH, [new.key])}
    assert ends == {("b", new.key), (new.key, "c")}
    assert reviewed.mutation.delete_edges == ["bc"]


@given(st.sampled_from([0, 1, 2, 3]), actions)
async def test_a_large_graph_read_in_part_gives_the_same_verdict(
    limit: int, raw: dict[str, Any]
) -> None:
    database: MemoryDatabase = await make_graph()
    source = database.source(WORKSPACE)
    action = parse_action(raw)
    all_of_it = await load_snapshot(source, GRAPH, action)
    part_of_it = await load_snapshot(source, GRAPH, action, whole_graph_nodes=limit)
    whole = tried(action, all_of_it)
    part = tried(action, part_of_it)
    if isinstance(whole, ProposalRefused):
        assert isinstance(part, ProposalRefused)
        assert part.problems == whole.problems
    else:
        mutation = sure(part).mutation
        assert mutation == whole.mutation
        assert inverse_mutation(part_of_it, mutation) == inverse_mutation(all_of_it, mutation)


ODD_BREAKS = ("\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r")
code = st.text(st.sampled_from(["a", "b", " ", "+", "-", "\n", *ODD_BREAKS]), max_size=30)


def diff_of(before: str, after: str) -> str:
    fields = field_changes({"process": before}, {"process": after})
    [field] = document_change("a", "a", fields)["fields"]
    return field["diff"]


@pytest.mark.parametrize("mark", [*ODD_BREAKS])
def test_a_line_drawn_into_the_comment_before_it_is_a_change_that_is_seen(mark: str) -> None:
    diff = diff_of("// look\ncheck()\nrun()", f"// look{mark}check()\nrun()")
    assert f"+// look{mark}check()" in diff.split("\n")
    assert "-check()" in diff.split("\n")


@given(code, code)
def test_the_diff_of_two_texts_holds_all_that_is_new(before: str, after: str) -> None:
    if before == after:
        return
    rows = diff_of(before, after).split("\n")[2:]
    old = set(before.split("\n"))
    for line in after.split("\n") if after else ():
        assert line in old or f"+{line}" in rows
    assert all(row[:1] in ("+", "-", " ", "@") for row in rows)


def test_a_carriage_return_cannot_pass_an_added_line_off_as_a_removed_one() -> None:
    [field] = field_changes({"process": "run()"}, {"process": "run() //\r-check()"})
    change = document_change("a", "a", [field])
    shown = [text.strip() for text, _ in preview_lines({"nodesChanged": [change]})]
    assert "+run() //\r-check()" in shown
    assert "-check()" not in shown


async def test_each_action_says_what_it_does_and_who_asked_for_a_person(bench: Bench) -> None:
    await with_demand(bench, "graph", ["delete"])
    both = {"type": "batch", "payload": {"actions": [ACTIONS["layout"], ACTIONS["delete"]]}}
    words = review_words(await propose(bench, both, ask_first=True), "en")
    moved, deleted = words["parts"]
    assert "Sort invoices" in deleted["text"]
    assert (moved["where"], moved["asked"]) == ("actions.0", "the assistant")
    assert (deleted["where"], deleted["asked"]) == ("actions.1", "graph: delete; the assistant")
    assert words["needsPerson"]


async def test_warnings_name_what_a_person_should_know(bench: Bench) -> None:
    graph = await bench.source.get_graph(FLOW)
    await bench.source.apply(
        Mutation(
            graph_key=FLOW,
            graph=graph.replace(metadata={"alwaysSend": ["b"], "validation": ["code"]}),
        )
    )
    await propose(bench, ACTIONS["layout"], ask_first=True)
    code = await propose(bench, ACTIONS["code"])
    types = await propose(bench, ACTIONS["types"])
    assert [one.code for one in code.warnings] == [
        "warning_code",
        "warning_always_sent",
        "warning_touched_too",
    ]
    assert code.warnings[-1].facts == {"node": "Fetch invoices"}
    assert [(one.code, one.facts["n"]) for one in types.warnings] == [("warning_type_used", "3")]
    for language in LANGUAGES:
        said: Any = [
            *review_words(code, language)["warnings"],
            *review_words(types, language)["warnings"],
        ]
        assert all(said)
        assert len(said) == 4


async def test_the_changes_that_follow_a_rename_say_who_asks_for_them(bench: Bench) -> None:
    (node,) = await bench.source.get_nodes_by_key(FLOW, ["c"])
    graph = await bench.source.get_graph(FLOW)
    origin = {"origin": {"format": "n8n"}, "validation": ["code"]}
    referring = node.replace(process="return $node['Fetch invoices']")
    await bench.source.apply(
        Mutation(graph_key=FLOW, graph=graph.replace(metadata=origin), put_nodes=[referring])
    )
    approval = await propose(bench, ACTIONS["content"])
    if approval.preview["nodesChanged"][1:]:  # another node follows
        assert approval.needs_person
        assert review_words(approval, "en")["parts"][-1]["asked"] == "graph: code"
    else:
        raise AssertionError(approval.preview)
