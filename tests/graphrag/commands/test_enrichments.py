"""Blocks become commands, commands what is run: each row of the tables."""

from typing import Any

import pytest
from pydantic import ValidationError

from graphrag.commands import blocks
from graphrag.commands.data_commands import commands
from graphrag.i18n import Language
from graphrag.sessions.periods import Calendar

PARIS = Calendar(timezone="Europe/Paris")
NOW = 1_795_510_800_000
"""Tuesday, 24 November 2026, 10:00 in Paris."""

LAST_WEEK = {"from": "-1_WEEK", "to": "-1_WEEK"}

HALF = {"period": {"from": "NOW"}}


def block(
    block_type: str, kind: str, key: str = "k", period: Any = None, **more: Any
) -> blocks.SentBlock:
    given = {"id": "b1", "type": block_type, "target": {"kind": kind, "key": key}, **more}
    return blocks.SentBlock.model_validate(given | ({"period": period} if period else {}))


@pytest.mark.parametrize(
    ("block_type", "kind", "expected"),
    [
        ("POINTER", "graph", "GRAPH"),
        ("POINTER", "sheet", "SHEET"),
        ("POINTER", "node", "NODE"),
        ("POINTER", "edge", "EDGE"),
        ("POINTER", "nodeType", "SCHEMA"),
        ("USE", "node", "SCHEMA NODE NODE_DATA NODE_LINKS NODE_STATS"),
        ("CREATE", "nodeType", "SCHEMA TYPE_EXAMPLES"),
        ("MODIFY_CONFIG", "nodeType", "SCHEMA TYPE_CONFIG TYPE_USES"),
        ("MODIFY_CONFIG", "node", "SCHEMA NODE NODE_DATA"),
    ],
)
def test_each_block_reads_what_its_row_says(block_type: str, kind: str, expected: str) -> None:
    found = commands(block(block_type, kind))
    assert [command.type for command in found] == expected.split()
    assert all(dict(command.params) == {kind: "k"} for command in found)
    with_period = [command.type for command in commands(block(block_type, kind, period=LAST_WEEK))]
    history = ["HISTORY"] if block_type in ("POINTER", "USE") else []
    assert with_period == expected.split() + history


@pytest.mark.parametrize("block_type", [*blocks.TARGETS])
@pytest.mark.parametrize("kind", ["graph", "sheet", "node", "edge", "nodeType"])
def test_a_target_of_another_kind_is_refused(block_type: Any, kind: Any) -> None:
    if kind in blocks.TARGETS[block_type]:
        assert block(block_type, kind).target.kind == kind
    else:
        with pytest.raises(ValidationError, match=block_type):
            block(block_type, kind)


@pytest.mark.parametrize(
    "wrong",
    [
        {"extra": 1},
        {"id": ""},
        {"id": 7},
        {"type": "DO"},
        {"target": None},
        {"at": -1},
        {"period": {"from": "NOW"}},
    ],
)
def test_a_block_of_another_form_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        block("USE", "node", **wrong)


def test_eleven_blocks_and_two_of_one_id_are_refused() -> None:
    many = [block("USE", "node").model_copy(update={"id": f"b{n}"}) for n in range(11)]
    blocks.check_blocks(many[:10])
    with pytest.raises(blocks.TooManyBlocks):
        blocks.check_blocks(many)
    with pytest.raises(blocks.BlockRefused, match="block 2"):
        blocks.check_blocks([many[0], many[0]])


def test_a_command_is_named_by_what_it_reads() -> None:
    one = commands(block("POINTER", "node"))[0]
    same = commands(block("USE", "node"))[1]
    assert one.id == same.id
    others = [*commands(block("POINTER", "node", "other")), *commands(block("POINTER", "graph"))]
    assert len({one.id, *(command.id for command in others)}) == 3


@pytest.mark.parametrize(
    ("start", "end", "code"),
    [
        ("soon", "NOW", "block_period_form"),
        ("2026-11-01T00:00:00", "NOW", "block_period_form"),
        ("1_DAY", "NOW", "block_period_future"),
        ("NOW", "-2_DAY", "block_period_order"),
        ("-9999_YEAR", "NOW", "block_period_range"),
    ],
)
def test_a_period_that_is_none_is_refused_when_sent(start: str, end: str, code: str) -> None:
    with pytest.raises(blocks.BlockRefused, match="block 1") as caught:
        blocks.with_instants([block("USE", "node", period={"from": start, "to": end})], NOW, PARIS)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("block_type", "kind", "english", "french"),
    [
        ("POINTER", "node", "points to Check", "désigne Check"),
        ("USE", "node", "uses Check", "utilise Check"),
        ("CREATE", "nodeType", "creates a Check", "crée un Check"),
        ("MODIFY_CONFIG", "node", "configures Check", "configure Check"),
    ],
)
def test_summaries_in_both_languages(block_type: str, kind: str, english: str, french: str) -> None:
    made = block(block_type, kind)
    assert blocks.summary(made, "Check", "en", PARIS) == english
    assert blocks.summary(made, "Check", "fr", PARIS) == french


@pytest.mark.parametrize(
    ("start", "end", "language", "said"),
    [
        ("-1_WEEK", "-1_WEEK", "en", "16–22 Nov 2026"),
        ("-1_WEEK", "-1_WEEK", "fr", "16–22 nov. 2026"),
        ("-1_DAY", "-1_DAY", "en", "23 Nov 2026"),
        ("-1_MONTH", "-1_DAY", "en", "1 Oct 2026–23 Nov 2026"),
        ("-1_HOUR", "NOW", "en", "24 Nov 2026 09:00 – 24 Nov 2026 10:00"),
    ],
)
def test_periods_in_words(start: str, end: str, language: Language, said: str) -> None:
    sent = block("USE", "node", period={"from": start, "to": end})
    [resolved] = blocks.with_instants([sent], NOW, PARIS)
    assert not resolved.period.is_relative
    assert blocks.summary(resolved, "Check", language, PARIS).endswith(f"Check, {said}")


def test_blocks_stand_where_they_were_put() -> None:
    sent = [
        block("USE", "node", id="end"),
        block("POINTER", "node", id="middle", at=4),
        block("POINTER", "node", id="late", at=99),
    ]
    said = {one.id: one.id for one in sent}
    content, segments = blocks.segments_of("See this now", sent, said)
    assert content == "See [middle] this now [end] [late]"
    assert [part.get("text") or part["block"]["id"] for part in segments] == [
        "See ",
        "middle",
        "this now",
        "end",
        "late",
    ]
    assert all("at" not in part["block"] for part in segments if "block" in part)
    again = [blocks.Block.model_validate(part["block"]) for part in segments if "block" in part]
    assert [one.id for one in again] == ["middle", "end", "late"]


def test_a_relative_period_is_said_as_written() -> None:
    period = blocks.Period(start="-7_DAY", end="NOW")
    made = block("USE", "node").model_copy(update={"period": period})
    assert blocks.summary(made, "Check", "en", PARIS) == "uses Check, from -7_DAY to NOW"
