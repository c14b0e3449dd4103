"""Pushes to n8n while others write, decide or save at the same moment: nothing is lost."""

import asyncio
import copy
from collections import Counter

import pytest

from graphrag.approvals import Approve, Person
from graphrag.connections.errors import PushDecided
from graphrag.connections.stored_push import Push
from tests.graphrag.connections.conftest import ADMIN, EDITOR, REVIEWER, Setting, workflow
from tests.graphrag.connections.n8n_pushes import connected, puts
from tests.support.workflow_servers import N8nDouble

ROUNDS = 200
"""Pushes during each of which somebody else saves the workflow."""
OVERLAP_EVERY = 5
"""Of so many rounds one changes the same field on both sides."""


@pytest.mark.parametrize("theirs", ["same field", "another field"])
async def test_a_version_written_while_ours_is_written_is_not_lost(
    setting: Setting, writable: N8nDouble, theirs: str
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="a", note="x"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    fields = {"mode": "c", "note": "x"} if theirs == "same field" else {"mode": "a", "note": "y"}

    def write() -> None:
        writable.between = None
        writable.put(workflow("Order", "Check", **fields), id=workflow_id)

    writable.between = write
    push = await setting.pushed("order")
    parameters = writable.workflows[workflow_id]["nodes"][1]["parameters"]
    if theirs == "same field":
        assert push.state == "failed"
        assert push.reason is not None
        assert push.reason.code == "push_overlap"
        assert parameters == fields
        assert await setting.changes() == {"Order": "conflict"}
    else:
        assert push.state == "verified", push.reason
        assert parameters == {"mode": "b", "note": "y"}


@pytest.mark.slow
async def test_of_versions_written_while_ours_are_written_none_is_lost(
    setting: Setting, writable: N8nDouble
) -> None:
    workflow_id = writable.put(workflow("Order", "Check", mode="0", note="0"))
    await connected(setting, writable)
    outcomes: Counter[str] = Counter()
    for number in range(1, ROUNDS + 1):
        is_overlap = number % OVERLAP_EVERY == 0
        theirs = {"mode" if is_overlap else "note": f"theirs {number}"}

        def write(theirs: dict[str, str] = theirs) -> None:
            writable.between = None
            document = copy.deepcopy(writable.workflows[workflow_id])
            document["nodes"][1]["parameters"] |= theirs
            writable.put(document, id=workflow_id)

        before = writable.workflows[workflow_id]["nodes"][1]["parameters"]
        writable.between = write
        await setting.change("order", "Check", mode=f"ours {number}")
        push = await setting.pushed("order")
        there = writable.workflows[workflow_id]["nodes"][1]["parameters"]
        outcomes[push.state] += 1
        if is_overlap:
            assert push.reason is not None
            assert push.reason.code == "push_overlap"
            assert there == {**before, **theirs}
            await _take_theirs(setting)
        else:
            assert there == {**before, **theirs, "mode": f"ours {number}"}
    overlaps = ROUNDS // OVERLAP_EVERY
    assert outcomes == {"verified": ROUNDS - overlaps, "failed": overlaps}


async def _take_theirs(setting: Setting) -> None:
    """Approves the server's value of a field that both sides changed."""
    [link] = await setting.connections.links(await setting.connections.get("shop"))
    assert link.approval is not None
    await setting.approvals.decide(link.approval, Approve(), REVIEWER)


async def test_a_page_that_is_saved_over_a_push_is_noticed(
    setting: Setting, writable: N8nDouble
) -> None:
    old = workflow("Order", "Check", mode="a", note="x")
    workflow_id = writable.put(old)
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    push = await setting.pushed("order")
    await setting.syncs.run("shop", EDITOR)
    assert (await setting.pushes.get(push.key)).state == "verified"
    writable.put(workflow("Order", "Check", mode="a", note="y"), id=workflow_id)
    await setting.syncs.run("shop", EDITOR)
    assert (await setting.pushes.get(push.key)).state == "undone"
    assert await setting.pushes.plan("shop", "order", EDITOR) is None  # theirs was taken


async def test_pushes_of_many_at_once_are_sent_in_turn_and_all_verified(
    setting: Setting, writable: N8nDouble
) -> None:
    names = [f"Order {number}" for number in range(10)]
    ids = [writable.put(workflow(name, "Check", mode="a")) for name in names]
    await connected(setting, writable)
    people = [Person(f"p{number}", "reviewer", "default") for number in range(5)]
    planned: list[Push] = []
    for number in range(10):
        await setting.change(f"order-{number}", "Check", mode="b")
        push = await setting.pushes.plan("shop", f"order-{number}", EDITOR)
        assert push is not None
        planned.append(push)
    ended = await asyncio.gather(
        *(
            setting.pushes.approve(push.key, people[number % 5])
            for number, push in enumerate(planned)
        )
    )
    assert [push.state for push in ended] == ["verified"] * 10
    assert len(puts(writable)) == 10
    modes = [writable.workflows[one]["nodes"][1]["parameters"]["mode"] for one in ids]
    assert modes == ["b"] * 10


async def test_a_push_is_sent_once_however_many_approve_it(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    outcomes = await asyncio.gather(
        *(setting.pushes.approve(push.key, REVIEWER) for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(each, PushDecided) for each in outcomes) == 4
    assert len(puts(writable)) == 1


async def test_a_push_that_is_rejected_while_it_is_sent_ends_as_it_was_sent(
    setting: Setting, writable: N8nDouble
) -> None:
    writable.put(workflow("Order", "Check", mode="a"))
    await connected(setting, writable)
    await setting.change("order", "Check", mode="b")
    push = await setting.pushes.plan("shop", "order", EDITOR)
    assert push is not None
    outcomes = await asyncio.gather(
        setting.pushes.approve(push.key, REVIEWER),
        *(setting.pushes.reject(push.key, ADMIN) for _ in range(3)),
        return_exceptions=True,
    )
    state = (await setting.pushes.get(push.key)).state
    assert len(puts(writable)) == (state == "verified")
    assert sum(not isinstance(each, BaseException) for each in outcomes) == 1
