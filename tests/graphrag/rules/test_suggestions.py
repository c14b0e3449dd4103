"""What is suggested to ask about a graph has an answer without a model, also of published workflows."""

from __future__ import annotations

from typing import Any

import pytest

from graphrag.agent.reply import sources_of
from graphrag.i18n import LANGUAGES
from graphrag.retrieval.suggestions import suggest
from mock_data import load_text
from tests.graphrag.rules.marked import FILES, NOT_BESIDE, Answered, asked, asking, imported, mark_all
from tests.graphrag.rules.talk import made
from tests.support.agents import GRAPH, Setting
from tests.support.each_row import each_row

SAMPLES = ("order_refund", "greenhouse_climate")
NO_ANSWERS = ("no_such_nodes", "near_nodes", "several_nodes", "found", "nothing_found", "read_failed")


def is_good(answer: Answered) -> bool:
    """Return whether an answer names a node or finds nothing wrong, and neither fails nor asks back."""
    rests_on = "{{node:" in answer.text or answer.says("run_nothing_found")
    return not answer.failed and rests_on and not answer.says(*NO_ANSWERS)


async def failures(setting: Setting, key: str, language: Any, at_most: int) -> list[str]:
    graph = await setting.source.get_graph(key)
    suggested = await suggest(setting.source, graph, language)
    assert graph.name.split()[0] in suggested.summary
    answers = [(text, await asked(setting, key, text)) for text in suggested.questions[:at_most]]
    assert "{{node:" in answers[0][1].text
    return [f"{key}: {text}: {answer.text[-400:]}" for text, answer in answers if not is_good(answer)]


@each_row("language", LANGUAGES)
async def test_three_first_questions_about_samples_have_answers(language: Any) -> None:
    async with asking() as setting:
        keys = [GRAPH]
        for name in SAMPLES:
            keys.append(await imported(setting, name, load_text(f"workflows/{name}.json").encode()))
        found = [text for key in keys for text in await failures(setting, key, language, 3)]
        assert not found, "\n".join(found)


async def test_graph_without_nodes_is_suggested_a_question_about_types() -> None:
    context = await made([])
    suggested = await suggest(context.source, await context.source.get_graph("g"), "en")
    assert suggested.questions == ("Which node types can I use?",)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
async def test_first_question_about_every_published_workflow_has_an_answer(language: Any) -> None:
    if not FILES:
        pytest.skip(NOT_BESIDE)
    found: list[str] = []
    for name, file in FILES.items():
        async with asking() as setting:
            key = await imported(setting, name, file.read_bytes())
            found += await failures(setting, key, language, 3)
            name_asked = await asked(
                setting, key, f"What does {(await setting.source.get_graph(key)).name} do?"
            )
            found += [] if is_good(name_asked) else [f"{key}: by its name"]
    print(f"{len(FILES)} workflows, {len(found)} questions without a good answer")
    assert not found, "\n".join(found)


async def test_answer_says_what_it_rests_on_as_a_path_and_as_what_lies_behind() -> None:
    async with asking() as setting:
        path = sources_of((await asked(setting, GRAPH, "path from entry-form to return")).text)
        assert path["path"] == ["entry-form", "root", "fetch-api", "filter-active", "display-html", "return"]
        fails = sources_of((await asked(setting, GRAPH, "what happens if fetch-api fails?")).text)
        assert fails["nodes"][:2] == ["fetch-api", "error-handler"]
        assert set(fails["behind"]) == {"error-handler", "filter-active", "display-html", "return"}


MISSED_AT_MOST = 8


@pytest.mark.slow
async def test_few_of_sixty_first_questions_are_missed() -> None:
    if not FILES:
        pytest.skip(NOT_BESIDE)
    failures = await mark_all()
    assert len(failures) <= MISSED_AT_MOST, "\n".join(failures)
