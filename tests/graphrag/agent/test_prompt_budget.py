"""A larger window never shows less, and little of a window stays empty while something
is left out.
"""

from collections.abc import Sequence

import pytest

from datasources.types import Mutation
from graphrag.agent import prompt_budget
from graphrag.agent.prompt_budget import ToolSize, share_out
from graphrag.importers import import_workflow
from graphrag.llm.tokens import prompt_tokens
from graphrag.retrieval.context import CONTEXT_MARKER
from mock_data import load_text
from tests.support.agents import EDITOR, collected, setting_of
from tests.support.scripted_provider import Asked, ScriptedProvider

READS = [ToolSize(tokens=120, writes=False, essential=i < 3) for i in range(11)]
WRITES = [ToolSize(tokens=150, writes=True, essential=i < 4) for i in range(10)]
TOOLS = [*READS, *WRITES]
SWEEP = [
    2_048,
    2_500,
    3_000,
    4_096,
    5_000,
    6_000,
    7_900,
    8_192,
    10_000,
    12_000,
    16_384,
    32_768,
    64_000,
    200_000,
]


@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("taken", [300, 1_000, 1_700])
def test_a_larger_window_leaves_no_less_to_the_context(taken: int, changing: bool) -> None:
    sizes = [
        share_out(window, TOOLS, taken=taken, wanted=4_000, changing=changing).context
        for window in range(2_048, 200_000, 512)
    ]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 4_000


def test_little_stays_empty_while_the_context_is_cut() -> None:
    for window in range(2_048, 16_000, 64):
        shares = share_out(window, TOOLS, taken=500, wanted=4_000, changing=True)
        if shares.context < 4_000:
            room = prompt_budget.prompt_room(window)
            used = 500 + shares.context + sum(TOOLS[i].tokens for i in shares.tools)
            assert used <= room
            assert room - used <= 0.1 * window, window


def test_tools_that_write_are_offered_where_a_change_is_asked_for_or_the_window_is_large() -> None:
    def writers(window: int, *, changing: bool) -> int:
        shares = share_out(window, TOOLS, taken=500, wanted=2_000, changing=changing)
        return sum(TOOLS[i].writes for i in shares.tools)

    assert writers(8_192, changing=False) == 0
    assert writers(8_192, changing=True) == 4
    assert writers(24_000, changing=True) == 10
    assert writers(128_000, changing=False) == 10


async def sent(window: int, question: str, workflow: str) -> Asked:
    """Returns the request of a question about a sample workflow, for a window of so many tokens."""
    with ScriptedProvider("Yes.", context_window=window) as model:
        async with setting_of(model) as setting:
            read = import_workflow(
                load_text(f"workflows/{workflow}").encode(), file_name=workflow, workspace="default"
            )
            for config in read.configs:
                await setting.source.put_node_config(config)
            await setting.source.create_graph(read.graph)
            await setting.source.apply(
                Mutation(graph_key=read.graph.key, put_nodes=read.nodes, put_edges=read.edges)
            )
            await collected(setting.agent.run(None, read.graph.key, question, EDITOR))
    return model.requests[0]


def shown_nodes(request: Asked) -> int:
    text = next(m.content for m in request.messages if m.content.startswith(CONTEXT_MARKER))
    return sum(int(line[1 : line.index("]")]) for line in text.splitlines() if "]{_key" in line)


async def test_every_window_shows_at_least_as_many_nodes_as_a_smaller_one() -> None:
    shown: list[int] = []
    for window in SWEEP:
        request = await sent(window, "When does a person approve a refund?", "order_refund.json")
        assert prompt_tokens(request.messages, request.tools) <= prompt_budget.prompt_room(window)
        shown.append(shown_nodes(request))
    assert shown == sorted(shown)
    assert shown[SWEEP.index(4_096)] == 18


@pytest.mark.slow
@pytest.mark.parametrize(
    "question", ["How is the fan switched?", "Rename the fan node to Ventilator"]
)
async def test_so_it_is_for_a_flow_of_several_sheets_and_for_a_change(question: str) -> None:
    shown = [
        shown_nodes(await sent(window, question, "greenhouse_climate.json")) for window in SWEEP
    ]
    assert shown == sorted(shown)


def names(request: Asked) -> Sequence[str]:
    return [tool["function"]["name"] for tool in request.tools]


async def test_a_small_window_has_few_tools_with_examples_and_reads_what_it_does_not_see() -> None:
    asked = await sent(2_500, "When does a person approve a refund?", "order_refund.json")
    assert names(asked) == ["search_nodes", "explore_neighborhood", "read_node_detail"]
    assert (
        names(await sent(8_192, "When does a person approve a refund?", "order_refund.json")) == []
    )
    changing = await sent(8_192, "Rename look-up-order to Find order", "order_refund.json")
    assert len(changing.tools) == 5
    assert names(changing)[0] == "propose_update_node"
    assert all("Example: {" in tool["function"]["description"] for tool in changing.tools)
