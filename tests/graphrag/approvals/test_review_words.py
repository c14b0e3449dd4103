"""What a person reviews: a sentence for each action, the levels that asked, warnings, in both languages."""

from __future__ import annotations

from typing import Any

from datasources.types import Mutation
from graphrag.approvals.wording import review_words
from graphrag.i18n import LANGUAGES
from tests.graphrag.approvals.helpers import FLOW, a_bench
from tests.graphrag.approvals.test_policy import ACTIONS, propose, with_demand


async def test_each_action_says_what_it_does_and_who_asked_for_a_person() -> None:
    bench = await a_bench()
    await with_demand(bench, "graph", ["delete"])
    both = {"type": "batch", "payload": {"actions": [ACTIONS["layout"], ACTIONS["delete"]]}}
    words = review_words(await propose(bench, both, ask_first=True), "en")
    moved, deleted = words["parts"]
    assert "Sort invoices" in deleted["text"]
    assert (moved["where"], moved["asked"]) == ("actions.0", "the assistant")
    assert (deleted["where"], deleted["asked"]) == ("actions.1", "graph: delete; the assistant")
    assert words["needsPerson"]


async def test_warnings_name_what_a_person_should_know() -> None:
    bench = await a_bench()
    graph = await bench.source.get_graph(FLOW)
    await bench.source.apply(
        Mutation(graph_key=FLOW, graph=graph.replace(metadata={"alwaysSend": ["b"], "validation": ["code"]}))
    )
    waiting = await propose(bench, ACTIONS["layout"], ask_first=True)
    code = await propose(bench, ACTIONS["code"])
    types = await propose(bench, ACTIONS["types"])
    assert [one.code for one in code.warnings] == [
        "warning_code",
        "warning_always_sent",
        "warning_touched_too",
    ]
    assert code.warnings[-1].facts == {"node": "Fetch invoices", "other": waiting.id}
    assert [(one.code, one.facts["n"]) for one in types.warnings] == [("warning_type_used", "3")]
    for language in LANGUAGES:
        said: Any = [*review_words(code, language)["warnings"], *review_words(types, language)["warnings"]]
        assert all(said)
        assert len(said) == 4


async def test_the_changes_that_follow_a_rename_say_who_asks_for_them() -> None:
    bench = await a_bench()
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
