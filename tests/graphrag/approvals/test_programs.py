"""A proposal names the program through which it came, derived from its client."""

from dataclasses import replace

from datasources.base import RecordWrite
from graphrag.approvals.approval import KIND
from graphrag.approvals.programs import program_of
from graphrag.roles import Channel, ClientInfo, Person
from tests.graphrag.approvals.helpers import ADMIN, EDITOR, OTHER_EDITOR, a_bench


def through(channel: Channel, name: str = "", key: str | None = None) -> Person:
    client = ClientInfo(channel=channel, name=name, version="1.0", key_id=key)
    return replace(EDITOR, client=client)


def test_a_program_is_known_by_its_key_else_by_its_name_else_by_its_channel() -> None:
    named = ClientInfo(channel="mcp", name=" Claude Code ", version="2", key_id="key_1")
    assert program_of(named) == "key:key_1"
    assert program_of(replace(named, key_id="token-7")) == "mcp/claude code"
    assert program_of(ClientInfo(channel="openai")) == "openai"
    assert program_of(ClientInfo(channel="page", name="page")) is None
    assert program_of(None) is None


async def test_a_proposal_says_through_which_program_it_came() -> None:
    bench = await a_bench()
    made = await bench.propose(
        "update_node",
        nodeKey="a",
        changes={"data.note": "x"},
        by=through("mcp", "claude-code", "key_1"),
    )
    assert made.client == {
        "channel": "mcp",
        "name": "claude-code",
        "version": "1.0",
        "keyId": "key_1",
    }
    assert made.program == "key:key_1"
    own = await bench.propose("update_node", nodeKey="b", changes={"data.note": "y"}, by=EDITOR)
    assert own.program is None


async def test_a_proposal_stored_with_a_rule_for_its_program_is_still_read() -> None:
    bench = await a_bench()
    made = await bench.propose(
        "update_node", nodeKey="a", changes={"data.note": "x"}, by=through("mcp")
    )
    records = bench.approvals().records
    stored = await records.get(KIND, made.id)
    assert stored is not None
    data = {**stored.data, "deciders": "reviewer"}
    write = RecordWrite(kind=KIND, key=made.id, data=data, expected_version=stored.version)
    await records.write([write])
    assert (await bench.approvals().get(made.id, ADMIN)).program == "mcp"
    assert bench.approvals().objection(made.asker, OTHER_EDITOR) is not None
