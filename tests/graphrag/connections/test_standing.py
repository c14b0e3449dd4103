"""Where a workflow and its graph stand to each other."""

from typing import Any

import pytest

from graphrag.connections.editor import RemoteWorkflow
from graphrag.connections.standing import Standing, standing_of
from graphrag.connections.stored_connection import ConnectionLink

SAME = {"rev": "1"}


def a_link(**more: Any) -> ConnectionLink:
    usual: dict[str, Any] = {
        "key": "shop/1",
        "connection": "shop",
        "workflow_id": "1",
        "name": "Order",
        "graph_key": "order",
        "tokens": SAME,
        "graph_revision": 3,
        "last_synced_time": 1,
    }
    return ConnectionLink(**{**usual, **more})


def listed(**tokens: str) -> RemoteWorkflow:
    return RemoteWorkflow(workflow_id="1", name="Order", tokens=tokens)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"revision": 3}, "in_step"),
        ({"revision": 3, "listed": listed(rev="1")}, "in_step"),
        ({"revision": 3, "listed": listed(rev="2")}, "changed_there"),
        ({"revision": 4}, "changed_here"),
        ({"revision": 4, "listed": listed(rev="2")}, "changed_both"),
        ({"revision": 3, "is_unreachable": True}, "unreachable"),
        ({"revision": 4, "is_unreachable": True}, "changed_here"),
        ({"revision": None}, "graph_deleted"),
    ],
)
def test_a_link_in_step_stands_as_its_revision_and_tokens_say(
    facts: dict[str, Any], expected: Standing
) -> None:
    assert standing_of(a_link(), **facts) == expected


@pytest.mark.parametrize("state", ["conflict", "refused", "gone", "archived"])
def test_what_the_last_synchronisation_found_comes_first(state: Standing) -> None:
    link = a_link(state=state)
    assert standing_of(link, revision=4, listed=listed(rev="2"), is_unreachable=True) == state
