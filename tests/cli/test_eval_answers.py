"""`eval --answers`: what models answer and change is measured, with a model that plays a script."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.conftest import Env, invoke, printed, write
from tests.graphrag.llm.wire import call_delta, delta, openai_text, sse, streamed, usage_chunk
from tests.support.scripted_http import ScriptedServer

QUESTION = {
    "ask": "What follows Start?",
    "must": ["Fetch NBA players"],
    "must_not": ["Sort by points"],
}
RENAME = {"ask": "Rename Note to Memo.", "set": {"Note": {"data.name": "Memo"}}}


def says(text: str) -> Any:
    return streamed(openai_text(text))


def calls(name: str, **arguments: Any) -> Any:
    return streamed(
        sse(
            call_delta(0, "c1", name, json.dumps(arguments)),
            delta("tool_calls"),
            usage_chunk(100, 10),
        )
    )


RENAMES = calls(
    "propose_update_node", nodeKey="disconnected-note", changes={"data.name": "Memo"}, reason="r"
)


def cases(folder: Path, *questions: Any, changes: Any = ()) -> Path:
    about = {"file": "sample:nba.json", "questions": questions, "changes": changes}
    return write(folder / "cases.json", {"workflows": [about]})


@pytest.fixture(autouse=True)
def found_by_words(env: Env) -> None:
    """The graphs are so small that vectors find nothing more."""
    env(NODIUS_EMBEDDINGS="none")


@pytest.fixture
def model(env: Env) -> Iterator[ScriptedServer]:
    """A model that plays a script, in the settings."""
    with ScriptedServer() as server:
        env(
            NODIUS_PROVIDER="compatible",
            NODIUS_MODEL="some-model",
            NODIUS_LLM_BASE_URL=f"{server.url}/v1",
        )
        yield server


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_answers_and_changes_of_the_agent_stand_beside_those_of_one_call(
    model: ScriptedServer, folder: Path
) -> None:
    file = cases(folder, QUESTION, changes=[RENAME])
    model.play(says("Fetch NBA players does."), says("Sort by points does."))
    model.play(RENAMES, says("It is called Memo now."), RENAMES)
    scores = printed(invoke("eval", file, "--answers", "--out", "run.jsonl", "--json", exits=0))
    agent = scores["questions"]["agent"]
    baseline = scores["questions"]["baseline"]
    assert (agent["right"], agent["rounds"], agent["cases"]) == (1, 1, 1)
    assert (baseline["right"], baseline["invented"]) == (0, 1)
    agent = scores["changes"]["agent"]
    baseline = scores["changes"]["baseline"]
    assert (agent["right"], agent["rounds"], agent["tool_calls"]) == (1, 2, 1)
    assert (baseline["right"], baseline["tool_calls"], baseline["malformed"]) == (1, 1, 0)
    assert baseline["prompt"] == 100
    rows = rows_of(Path("run.jsonl"))
    assert [(row["way"], row["proposals"]) for row in rows] == [
        *(("agent", 0), ("baseline", 0), ("agent", 1), ("baseline", 1))
    ]
    sent = [request.json for request in model.requests]
    assert "https://api.example.com/nba/v1/players/stats" in sent[1]["messages"][0]["content"]
    assert "tools" not in sent[1]
    assert "propose_update_node" in str(sent[-1]["tools"])


def test_a_call_that_cannot_be_run_is_malformed_and_a_wrong_change_is_wrong(
    model: ScriptedServer, folder: Path
) -> None:
    file = cases(folder, changes=[RENAME])
    model.play(
        calls("rename_it", node="Note"),
        says("I cannot do that."),
        calls("propose_update_node", x=1),
    )
    scores = printed(invoke("eval", file, "--answers", "--json", exits=0))["changes"]
    for way in ("agent", "baseline"):
        assert (scores[way]["wrong"], scores[way]["malformed"], scores[way]["tool_calls"]) == (
            1,
            1,
            1,
        )


def test_a_change_of_something_else_is_invented_and_an_invented_edge_too(
    model: ScriptedServer, folder: Path
) -> None:
    file = cases(folder, QUESTION, changes=[RENAME])
    other = calls("propose_delete_node", nodeKey="sort-stats", reason="r")
    model.play(says("Fetch NBA players. Player table → Start"), other, says("Done."))
    scores = printed(invoke("eval", file, "--answers", "--no-baseline", "--json", exits=0))
    assert scores["questions"]["agent"]["invented"] == scores["changes"]["agent"]["invented"] == 1
    assert list(scores["questions"]) == ["agent"]
    assert scores["questions"]["agent"]["invented_marked"] == 1, (
        "the answer itself says what is not there"
    )


def test_a_run_goes_on_where_it_stopped(model: ScriptedServer, folder: Path) -> None:
    file = cases(folder, QUESTION, {**QUESTION, "ask": "And what follows Start?"})
    run = Path("run.jsonl")
    asked = ("eval", file, "--answers", "--no-baseline", "--out", run, "--json")
    model.play(says("Fetch NBA players."), says("Nothing."))
    invoke(*asked, exits=0)
    first, second = run.read_text("utf-8").splitlines()
    run.write_text(f"{first}\n{second[:50]}", "utf-8")  # as where the process was killed
    model.play(says("Fetch NBA players."))
    assert printed(invoke(*asked, exits=0))["questions"]["agent"]["right"] == 1
    assert [row["case"] for row in rows_of(run)] == ["sample:nba.json#q1", "sample:nba.json#q2"]
    before = len(model.requests)
    invoke(*asked, exits=0)
    assert len(model.requests) == before
    cases(folder, {**QUESTION, "must": ["Start"]}, QUESTION)  # both are other cases now
    model.play(says("Start."), says("Fetch NBA players."))
    invoke(*asked, exits=0)


def test_cases_that_failed_are_asked_again(model: ScriptedServer, folder: Path) -> None:
    file = cases(folder, QUESTION)
    run = Path("run.jsonl")
    asked = ("eval", file, "--answers", "--no-baseline", "--out", run)
    model.play(streamed(b"", status=401))
    assert "failed: sample:nba.json#q1, agent: auth_error" in invoke(*asked, exits=0).stderr
    model.play(says("Fetch NBA players."))
    assert "failed" not in invoke(*asked, exits=0).stderr


def test_a_model_that_always_fails_ends_the_run(model: ScriptedServer, folder: Path) -> None:
    file = cases(folder, *({**QUESTION, "ask": f"{number}?"} for number in range(5)))
    model.play(*[streamed(b"", status=401)] * 3)
    result = invoke("eval", file, "--answers", "--no-baseline", exits=1)
    assert "3 cases in a row failed, the last with auth_error" in result.stderr


def test_fewer_right_answers_than_in_another_run_end_with_1(
    model: ScriptedServer, folder: Path
) -> None:
    file = cases(folder, QUESTION, {**QUESTION, "ask": "And what follows Start?"})
    asked = ("eval", file, "--answers", "--no-baseline", "--out")
    model.play(says("Fetch NBA players."), says("Nothing."))
    invoke(*asked, "first.jsonl", exits=0)
    model.play(says("Nothing."), says("Nothing."))
    worse = invoke(*asked, "second.jsonl", "--against", "first.jsonl", exits=1)
    assert "-0.500" in worse.stdout
    assert "worse: sample:nba.json#q1" in worse.stderr
    model.play(says("Fetch NBA players."), says("Fetch NBA players."))
    better = invoke(*asked, "third.jsonl", "--against", "first.jsonl", "--json", exits=0)
    assert printed(better)["against"]["better"] == ["sample:nba.json#q2"]


def test_cases_made_from_a_graph_are_answered_by_rules(folder: Path, db: Path, env: Env) -> None:
    env(NODIUS_PROVIDER="offline")
    made = invoke("eval", "testgraph001", "--answers", "--make", "12", exits=0)
    (about,) = printed(made)["workflows"]
    assert about["file"] == "graph:testgraph001"
    assert len(about["questions"]) + len(about["changes"]) == 12
    asked = [case["connected"] for case in about["questions"] if "connected" in case]
    assert len(asked) == 2
    file = write(folder / "made.json", made.stdout)
    scores = printed(invoke("eval", file, "--answers", "--no-baseline", "--json", exits=0))
    assert scores["changes"]["agent"]["right"] == 1
    assert scores["questions"]["agent"]["right"] > 0.5
    again = printed(invoke("eval", "testgraph001", "--answers", "--make", "12", exits=0))
    assert again == printed(made)


def test_the_facts_that_contexts_show_are_measured_without_a_model(folder: Path) -> None:
    file = cases(
        folder, QUESTION, {"ask": "What follows Start?", "must": ["a fact that is nowhere"]}
    )
    shown = printed(invoke("eval", file, "--answers", "--contexts", "--json", exits=0))
    assert (shown["questions"], shown["all_facts"], shown["share_of_facts"]) == (2, 1, 0.5)
    assert shown["missing"][0]["missing"] == ["a fact that is nowhere"]
    table = invoke("eval", file, "--answers", "--contexts", exits=0)
    assert "sample:nba.json#q2 lacks a fact that is nowhere" in table.stderr


PROMPTFOO_TEST = {
    "type": "object",
    "properties": {
        "description": {"type": "string"},
        "vars": {"type": "object", "additionalProperties": {"type": "string"}},
        "assert": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "type": {"enum": ["icontains-any", "not-icontains-any", "regex", "not-regex"]},
                    "value": {},
                },
                "required": ["type", "value"],
                "additionalProperties": False,
            },
        },
        "metadata": {"type": "object"},
    },
    "required": ["vars", "assert"],
    "additionalProperties": False,
}
"""What of https://promptfoo.dev/config-schema.json (`tests`) is used."""
INSPECT_SAMPLE = {
    "type": "object",
    "properties": {
        "id": {"type": ["string", "integer"]},
        "input": {"type": "string", "minLength": 1},
        "target": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "metadata": {"type": "object"},
    },
    "required": ["id", "input", "target"],
    "additionalProperties": False,
}
"""What of a `Sample` of https://inspect.aisi.org.uk/datasets.html is used."""


@pytest.mark.parametrize(
    ("form", "schema"), [("promptfoo", PROMPTFOO_TEST), ("inspect", INSPECT_SAMPLE)]
)
def test_the_written_questions_are_exported_in_the_format_of_another_tool(
    form: str, schema: dict[str, Any]
) -> None:
    cases = Path(__file__).parents[1] / "data" / "answers" / "cases.toml"
    result = invoke("eval", cases, "--answers", "--export", form, exits=0)
    exported = json.loads(result.stdout)
    jsonschema.validate(exported, {"type": "array", "items": schema})
    left_out = int(result.stderr.split("left out: ")[1].split()[0])
    assert len(exported) + left_out == 90
    assert len(exported) > 40


def test_exported_questions_keep_what_their_answers_must_and_must_not_have(folder: Path) -> None:
    several = {"ask": "How many?", "must": ["3", ["a", "{{ b }}"]], "must_not": ["Sort it"]}
    file = cases(folder, several, {"ask": "Which?", "must": [["a", "b"]]}, changes=[RENAME])
    (first, second) = printed(invoke("eval", file, "--answers", "--export", "promptfoo", exits=0))
    assert first["vars"] == {"question": "How many?"}
    assert first["assert"] == [
        {"type": "regex", "value": r"\b(3)\b"},
        {"type": "icontains-any", "value": ["a", "{% raw %}{{ b }}{% endraw %}"]},
        {"type": "not-icontains-any", "value": ["Sort it"]},
    ]
    assert second["assert"] == [{"type": "icontains-any", "value": ["a", "b"]}]
    (first, second) = printed(invoke("eval", file, "--answers", "--export", "inspect", exits=0))
    assert (
        first["target"]
        == "The answer mentions all of: 3; a or {{ b }}. It does not mention: Sort it."
    )
    assert first["metadata"]["must"] == [["3"], ["a", "{{ b }}"]]
    assert (second["id"], second["target"]) == ("sample:nba.json#q2", ["a", "b"])
    only_changes = cases(folder, changes=[RENAME])
    assert (
        "no question"
        in invoke("eval", only_changes, "--answers", "--export", "inspect", exits=1).stderr
    )
    assert "go with --answers" in invoke("eval", file, "--export", "inspect", exits=2).stderr


def test_what_cannot_be_measured_is_said(folder: Path) -> None:
    file = write(
        folder / "cases.toml", '[[workflows]]\nfile = "none.json"\nquestions = [{ ask = "?" }]\n'
    )
    assert "none.json: No such file" in invoke("eval", file, "--answers", exits=1).stderr
    write(folder / "cases.toml", "[[workflows]]\n")
    assert "workflows.0.file: Field required" in invoke("eval", file, "--answers", exits=2).stderr
    wrong = cases(folder, changes=[{"ask": "!", "gone": ["Nobody"]}])
    assert (
        "nba.json#c1: 0 nodes are called 'Nobody'"
        in invoke("eval", wrong, "--answers", exits=2).stderr
    )
    assert "go with --answers" in invoke("eval", wrong, "--make", "3", exits=2).stderr
    right = cases(folder, QUESTION)
    write(folder / "run.jsonl", '{"no": "result"}\n')
    assert "line 1" in invoke("eval", right, "--answers", "--out", "run.jsonl", exits=2).stderr
    assert (
        "holds no result"
        in invoke("eval", right, "--answers", "--against", "no.jsonl", exits=2).stderr
    )
