"""The chain of audit entries: every single edit, removal, addition and exchange shows."""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from datasources.base import Record, RecordWrite
from graphrag.approvals.audit import HEAD, KIND, START, Audit
from tests.support.chosen_database import fresh_database
from tools.proposals import canonical_json

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=5,
)
facts = st.dictionaries(
    st.sampled_from(["event", "graphKey", "userId", "why", "é"]),
    json_values,
    min_size=1,
    max_size=4,
)
chains = st.lists(facts, min_size=1, max_size=6)


async def _chain(entries: list[dict[str, Any]]) -> tuple[Audit, Any]:
    records = (await fresh_database()).records("acme")
    audit = Audit(records, lambda: 7)
    for entry in entries:
        await audit.record(entry, records.write)
    return audit, records


async def _put(records: Any, key: str, data: Any) -> None:
    stored = await records.get(KIND, key)
    await records.put(
        Record(kind=KIND, key=key, data=data), expected_version=stored.version if stored else None
    )


@given(chains)
async def test_a_chain_that_nobody_touched_is_sound(entries: list[dict[str, Any]]) -> None:
    audit, _ = await _chain(entries)
    found = await audit.verify()
    assert found.is_sound
    assert found.entries == len(entries)
    assert found.head == (await audit.entries(limit=1))[0].hash


@given(chains, st.data())
async def test_any_edit_of_any_field_of_any_entry_shows(
    entries: list[dict[str, Any]], data: Any
) -> None:
    audit, records = await _chain(entries)
    key = data.draw(st.sampled_from([*(f"{n + 1:012}" for n in range(len(entries))), HEAD]))
    stored = dict((await records.get(KIND, key)).data)
    field = data.draw(st.sampled_from([*sorted(stored), "added"]))
    if field in stored and data.draw(st.booleans()):
        del stored[field]
    else:
        value = data.draw(json_values)
        if canonical_json(value) == canonical_json(stored.get(field, "\x00absent")):
            return
        stored[field] = value
    if key == HEAD and field == "added":
        return  # the head has no facts of its own
    await _put(records, key, stored)
    assert not (await audit.verify()).is_sound


@given(chains, st.data())
async def test_the_removal_of_any_entry_shows(entries: list[dict[str, Any]], data: Any) -> None:
    audit, records = await _chain(entries)
    key = f"{data.draw(st.integers(1, len(entries))):012}"
    stored = await records.get(KIND, key)
    await records.delete(KIND, key, expected_version=stored.version)
    assert not (await audit.verify()).is_sound


@given(st.lists(facts, min_size=2, max_size=6), st.data())
async def test_the_exchange_of_any_two_entries_shows(
    entries: list[dict[str, Any]], data: Any
) -> None:
    audit, records = await _chain(entries)
    one, other = data.draw(
        st.lists(st.integers(1, len(entries)), min_size=2, max_size=2, unique=True).map(sorted)
    )
    keys = [f"{one:012}", f"{other:012}"]
    first, second = [dict((await records.get(KIND, key)).data) for key in keys]
    if data.draw(st.booleans()):  # with numbers and links made to fit
        for name in ("sequence", "previous"):
            first[name], second[name] = second[name], first[name]
    await _put(records, keys[0], second)
    await _put(records, keys[1], first)
    assert not (await audit.verify()).is_sound


@given(chains, st.data())
async def test_an_entry_added_by_hand_shows(entries: list[dict[str, Any]], data: Any) -> None:
    audit, records = await _chain(entries)
    key = data.draw(
        st.sampled_from([f"{len(entries) + 1:012}", f"{len(entries) + 2:012}", "x", "0"])
    )
    await _put(records, key, {"event": "applied", "sequence": len(entries) + 1})
    assert not (await audit.verify()).is_sound


async def test_a_chain_written_again_shows_against_a_noted_head() -> None:
    noted = (await (await _chain([{"event": "applied"}]))[0].verify()).head
    forged, _ = await _chain([{"event": "rejected"}])
    assert (await forged.verify()).is_sound
    assert not (await forged.verify(noted=noted)).is_sound
    grown, _ = await _chain([{"event": "applied"}, {"event": "rejected"}])
    assert (await grown.verify(noted=noted)).is_sound


async def test_no_entry_is_lost_when_many_append_at_once() -> None:
    records = (await fresh_database()).records("acme")
    logs = [Audit(records, lambda: 7) for _ in range(10)]
    await asyncio.gather(
        *(
            log.record({"event": "applied", "number": n}, records.write)
            for n, log in enumerate(logs * 5)
        )
    )
    found = await logs[0].entries(limit=100)
    assert sorted(entry.facts["number"] for entry in found) == list(range(50))
    assert (await logs[0].verify()).is_sound


async def test_an_append_that_stopped_before_the_head_is_taken_in_by_the_next() -> None:
    audit, records = await _chain([{"event": "applied"}])

    async def stop_before_the_head(writes: Sequence[RecordWrite]) -> None:
        await records.write(writes[:1])

    await audit.record({"event": "rejected"}, stop_before_the_head)
    assert (await audit.verify()).is_sound
    await audit.record({"event": "expired"}, records.write)
    assert [e.facts["event"] for e in await audit.entries()] == ["expired", "rejected", "applied"]
    assert (await audit.verify()).is_sound


async def test_workspaces_have_chains_of_their_own() -> None:
    database = await fresh_database()
    for workspace in ("acme", "globex"):
        records = database.records(workspace)
        await Audit(records, lambda: 7).record({"event": workspace}, records.write)
    (entry,) = await Audit(database.records("acme"), lambda: 7).entries()
    assert (entry.sequence, entry.previous, entry.facts["event"]) == (1, START, "acme")
