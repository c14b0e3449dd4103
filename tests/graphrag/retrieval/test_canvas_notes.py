"""Notes and frames give their sentence to a context, and take no place of a step."""

import itertools

from datasources.base import MutableGraphDataSource
from datasources.mock import MemoryDatabase
from datasources.types import Mutation, Node, Size
from graphrag.llm.tokens import count_tokens
from graphrag.retrieval.context import ContextOptions, build_context
from graphrag.retrieval.retriever import Retriever
from tests.contracts.samples import FLOW, WORKSPACE, a_graph, a_node, an_edge

QUESTION = "which invoice reminders go out weekly"
STEPS = [
    a_node(f"s{i:02}", data={"name": f"Send invoice {i}"}, pos_x=200.0 * i, pos_y=0.0)
    for i in range(30)
]
NOTES = [
    a_node(
        f"note{i}",
        type="note",
        data={"text": f"## Invoice invoice {i}\nInvoice reminders go out weekly."},
        pos_x=1_000.0 * i - 20,
        pos_y=-40.0,
        size=Size(width=700, height=400),
    )
    for i in range(8)
]


async def a_source(nodes: list[Node]) -> MutableGraphDataSource:
    source = MemoryDatabase().source(WORKSPACE)
    keys = [node.key for node in nodes if node.type != "note"]
    edges = [an_edge(f"e{i}", *pair) for i, pair in enumerate(itertools.pairwise(keys))]
    content = Mutation(graph_key=FLOW, put_nodes=nodes, put_edges=edges)
    await source.create_graph(a_graph(), content)
    return source


async def test_the_places_of_notes_go_to_the_next_steps() -> None:
    found = await Retriever(await a_source([*STEPS, *NOTES]), None).retrieve(FLOW, QUESTION)
    assert [scored.node.type for scored in found.nodes].count("note") == 0
    assert len(found.nodes) == 20
    assert found.canvas_notes
    assert {scored.node.type for scored in found.canvas_notes} == {"note"}


async def test_a_context_has_the_sentence_of_a_note_and_the_nodes_on_it() -> None:
    found = await Retriever(await a_source([*STEPS, *NOTES]), None).retrieve(FLOW, QUESTION)
    context = build_context(found, ContextOptions(budget_tokens=1_500), count_tokens)
    rows = context.tables["notes"]
    assert "NOTES ON THE CANVAS" in context.text
    assert all("Invoice reminders go out weekly." in row["says"] for row in rows)
    assert {key for row in rows for key in (row["around"] or "").split(", ")} & set(context.nodes)
    assert {row["_key"] for row in rows} <= set(context.brief)


async def test_many_long_notes_leave_the_room_to_the_nodes() -> None:
    long = [note.replace(data={"text": "Invoice invoice " + "and more " * 500}) for note in NOTES]
    found = await Retriever(await a_source([*STEPS, *long]), None).retrieve(FLOW, QUESTION)
    for budget in (300, 600, 1_200):
        context = build_context(found, ContextOptions(budget_tokens=budget), count_tokens)
        assert context.tokens <= budget
        assert context.nodes[0] == found.nodes[0].node.key


async def test_a_search_finds_notes_among_the_nodes() -> None:
    retriever = Retriever(await a_source([*STEPS, *NOTES]), None)
    hits = await retriever.search(FLOW, "reminders weekly", limit=5)
    assert hits[0].node.type == "note"
    assert len(hits) == 5


async def test_notes_alone_are_the_result_of_a_graph_without_steps() -> None:
    found = await Retriever(await a_source(NOTES), None).retrieve(FLOW, QUESTION)
    assert {scored.node.type for scored in found.nodes} == {"note"}
    assert not found.canvas_notes
