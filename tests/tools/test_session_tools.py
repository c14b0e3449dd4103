"""Questions and ends of runs: offered where they belong, checked from one declaration."""

from typing import Any

import pytest

from datasources.mock import MemoryDatabase
from tools.arguments import parameters_of
from tools.base import ToolContext
from tools.read_tools import READ_TOOLS
from tools.session_tools import (
    ASK_PERSON,
    FINISH_AUTOMATION,
    MODULES,
    QUESTIONS,
    SESSION_TOOLS,
    AskPerson,
    WrongResponse,
)
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS

BOX = ToolBox((*READ_TOOLS, *WRITE_TOOLS, *SESSION_TOOLS))
WITH_QUESTIONS = frozenset({QUESTIONS})
CHOICE: dict[str, Any] = {
    "type": "MultipleChoice",
    "data": {"question": "Which?", "options": ["a", "b"]},
}


def context(**more: Any) -> ToolContext:
    return ToolContext(source=MemoryDatabase().source("w"), graph_key="g", role="editor", **more)


def test_each_session_tool_is_offered_only_where_somebody_can_use_it() -> None:
    def offered(*asked: Any) -> set[str]:
        return {tool.name for tool in BOX.offered(*asked)} & {"ask_person", "finish_automation"}

    for role in ("viewer", "editor", "reviewer", "admin"):
        assert offered(role) == set()
        assert offered(role, "chat", WITH_QUESTIONS) == {"ask_person"}
        assert offered(role, "automation", WITH_QUESTIONS) == {"finish_automation"}
    assert not any(tool.effect == "proposes" for tool in BOX.offered("viewer", "automation")), (
        "a report changes nothing"
    )


async def test_a_session_tool_is_refused_where_it_is_not_offered() -> None:
    for name, example, where in (
        ("ask_person", ASK_PERSON.example, context()),
        (
            "ask_person",
            ASK_PERSON.example,
            context(session_kind="automation", features=WITH_QUESTIONS),
        ),
        ("finish_automation", FINISH_AUTOMATION.example, context()),
    ):
        result = await BOX.run(name, dict(example), where)
        assert result.error
        assert result.error.code == "not_permitted"
        assert name not in (result.error.problems[0].allowed or "")


def test_the_tools_parameters_and_the_check_come_from_one_declaration() -> None:
    parameters = ASK_PERSON.schema()["function"]["parameters"]
    assert parameters["properties"]["type"]["enum"] == list(MODULES)
    assert [set(one["properties"]) for one in parameters["properties"]["data"]["anyOf"]] == [
        set(parameters_of(module)["properties"]) for module in MODULES.values()
    ]
    for tool in SESSION_TOOLS:
        assert tool.arguments.model_validate(dict(tool.example))


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"type": "Slider", "data": {"message": "x"}}, "type"),
        (
            {"type": "Validation", "data": {"question": "Which?", "options": ["a", "b"]}},
            "data.message",
        ),
        ({"type": "MultipleChoice", "data": {"message": "Sure?"}}, "data.question"),
        (
            {"type": "MultipleChoice", "data": {"question": "Which?", "options": ["a"]}},
            "data.options",
        ),
        (
            {"type": "MultipleChoice", "data": {"question": "Which?", "options": ["a", " A "]}},
            "data.options",
        ),
        (
            {"type": "MultipleChoice", "data": {"question": "Which?", "options": ["a", " "]}},
            "data.options",
        ),
        (
            {"type": "MultipleChoice", "data": {"question": "Q", "options": ["a", "x" * 201]}},
            "data.options.1",
        ),
        ({"type": "Validation", "data": {"message": ""}}, "data.message"),
        ({"type": "Validation", "data": "Sure?"}, "data"),
        ({"type": "Validation", "data": {"message": "m" * 501}}, "data.message"),
        ({"type": "Validation", "data": {"message": "m", "html": "<b>"}}, "data.html"),
        ({"type": "Validation"}, "data"),
    ],
)
async def test_another_type_or_shape_is_answered_with_what_is_wrong_and_a_right_call(
    wrong: dict[str, Any], where: str
) -> None:
    result = await BOX.run("ask_person", wrong, context(features=WITH_QUESTIONS))
    assert result.error
    assert result.error.problems[0].where == where
    assert result.error.example == ASK_PERSON.example


@pytest.mark.parametrize(
    ("more", "right", "wrong"),
    [
        ({}, ["a", "b"], ["c", "A", "", True, "a ", "yes"]),
        ({"other": True}, ["a", "c", "x" * 4_000], ["", "  ", "x" * 4_001, False]),
    ],
)
def test_a_choice_takes_its_options_and_a_free_text_only_when_it_says_so(
    more: dict[str, Any], right: list[Any], wrong: list[Any]
) -> None:
    asked = AskPerson.model_validate({"type": "MultipleChoice", "data": {**CHOICE["data"], **more}})
    for response in right:
        asked.check(response)
    for response in wrong:
        with pytest.raises(WrongResponse, match="'a', 'b'"):
            asked.check(response)


def test_a_validation_takes_yes_or_no_and_nothing_that_looks_like_it() -> None:
    asked = AskPerson.model_validate({"type": "Validation", "data": {"message": "Sure?"}})
    asked.check(True)
    asked.check(False)
    for response in ("yes", "true", ""):
        with pytest.raises(WrongResponse, match="yes, no"):
            asked.check(response)
    assert AskPerson.model_validate(asked.document) == asked
