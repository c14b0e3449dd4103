"""A replay is compared with its stored call by outcome, tools, sources and words."""

from typing import Any

import pytest

from graphrag.app.call_comparison import ReplayReport, compare_calls, shared_words

NOTE = {"name": "note", "arguments": '{"n":2}', "ok": True, "result": "{}"}
REFUSED = {**NOTE, "ok": False, "result": "n must be a text"}


def call(**changes: Any) -> dict[str, Any]:
    facts = {"callId": "c1", "outcome": "noted", "endReason": "caller_hung_up"}
    transcript = [{"role": "user", "content": "Note it."}, words("It is noted.")]
    sources = [{"graph": "g", "turn": 1, "nodes": ["a", {"key": "b"}]}]
    return {**facts, "transcript": transcript, "tools": [NOTE], "sources": sources, **changes}


def words(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


def test_the_same_call_is_the_same() -> None:
    again = call(callId="c2", tools=[{**NOTE, "arguments": '{ "n": 2 }'}])
    compared = compare_calls(call(), again, min_words=1)
    assert (compared.verdict, compared.words, compared.problems) == ("same", 1, ())


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"outcome": None}, "outcome noted → None"),
        ({"tools": []}, 'tool lost: note {"n": 2}'),
        ({"tools": [REFUSED]}, 'tool lost: note {"n": 2} → n must be a text'),
        ({"tools": [{**NOTE, "arguments": '{"n":3}'}]}, 'tool lost: note {"n": 2}'),
        ({"sources": []}, "source lost: g/a"),
        ({"endReason": "model_refused"}, "ended by model_refused"),
        ({"transcript": [words("Sorry, no.")]}, "words 0.00 < 0.5"),
    ],
)
def test_what_a_replay_lost_is_worse_and_said(changes: dict[str, Any], problem: str) -> None:
    compared = compare_calls(call(), call(**changes), min_words=0.5)
    assert compared.verdict == "worse"
    assert compared.problems[0] == problem


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": [NOTE, {**NOTE, "name": "search"}]},
        {"sources": [{"graph": "g", "nodes": ["a", "b", "c"]}]},
        {"transcript": [words("It is noted now.")]},
    ],
)
def test_what_a_replay_does_beside_is_a_change(changes: dict[str, Any]) -> None:
    assert compare_calls(call(), call(**changes), min_words=0.5).verdict == "changed"


def test_a_tool_that_failed_before_is_not_lost() -> None:
    before = call(tools=[REFUSED])
    assert compare_calls(before, call(tools=[REFUSED]), min_words=1).verdict == "same"
    assert compare_calls(before, call(tools=[]), min_words=1).verdict == "same"


def test_a_call_that_is_made_once_less_is_lost() -> None:
    compared = compare_calls(call(tools=[NOTE, NOTE]), call(), min_words=1)
    assert compared.lost_tools == ('note {"n": 2}',)


def test_words_are_counted_without_case_marks_and_order() -> None:
    assert shared_words(["Two, please!"], ["PLEASE two"]) == 1
    assert shared_words([], ["", "…"]) == 1
    assert shared_words(["a a b"], ["a b b"]) == 0.667
    assert shared_words(["élan"], ["elan"]) == 0


def test_a_report_counts_verdicts_and_outcomes() -> None:
    rows = [
        compare_calls(call(), call(**changes), min_words=0.5)
        for changes in ({}, {}, {"outcome": "x"})
    ]
    report = ReplayReport(compared=rows, left_out={"c9": "forgotten"})
    assert round(report.worse_percent) == 33
    assert report.outcomes() == [("noted", "noted", 2), ("noted", "x", 1)]
    document = report.to_document()
    assert document["leftOut"] == [{"callId": "c9", "reason": "forgotten"}]
    assert document["calls"][2]["outcomeBefore"] == "noted"
