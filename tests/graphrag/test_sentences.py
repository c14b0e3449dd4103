"""Every text for a person is whole in French and in English; what a provider said stands beside it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import pytest

from graphrag.agent.failures import classify
from graphrag.approvals import errors as approvals
from graphrag.errors import MEANINGS, describe
from graphrag.i18n import MESSAGES
from graphrag.i18n.error_texts import ERRORS
from graphrag.i18n.localized import LocalizedError
from graphrag.llm.errors import ModelError
from graphrag.llm.usage_meter import UsageLimitReached
from tests.graphrag.test_errors import exceptions_of_the_rooms
from tools.base import Problem

REASON = "the upstream said: nope, this is what the other side wrote"
CATALOGUE: Mapping[str, Mapping[Any, str]] = {**MESSAGES, **ERRORS}
ENGLISH = re.compile(
    r"\b(the|is|are|was|were|not|and|of|with|this|that|cannot|there|has|have|again|try|by|from|here|it|its"
    r"|nobody|somebody|nothing|wait|changed|since|said|your|you|no longer|another|wrong|missing|failed"
    r"|graph|node|edge|message|file|server|request|error|key|thread|found|known)\b"
)
OURS = re.compile(r"\{[a-z_:]+\}|`[^`]*`|max_\w+")
SAME = {"message"}
"""Words of both languages."""


def english_in(text: str) -> set[str]:
    return {found[0] for found in ENGLISH.finditer(OURS.sub("", text).lower())} - SAME


@pytest.mark.parametrize("name", CATALOGUE)
def test_no_french_text_is_english(name: str) -> None:
    assert english_in(CATALOGUE[name]["fr"]) == set()


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_text_has_the_same_facts_in_both_languages_or_fewer_in_french(name: str) -> None:
    places = {language: set(re.findall(r"\{([a-z_]+)", text)) for language, text in CATALOGUE[name].items()}
    if "sentence" not in places["en"]:
        assert places["fr"] <= places["en"]
        assert places["en"] - places["fr"] <= {"reason", "problems"}
    assert "reason" not in places["fr"]


def raised() -> list[type[Exception]]:
    kinds = [kind for kind in exceptions_of_the_rooms() if not kind.__subclasses__()]
    return sorted(set(kinds), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", raised(), ids=lambda kind: kind.__name__)
def test_every_error_is_a_whole_sentence_in_both_languages(kind: type[Exception]) -> None:
    exc = made(kind)
    english, french = describe(exc, "en"), describe(exc, "fr")
    assert english is not None
    assert french is not None
    assert english.message != french.message
    assert not any(mark in told.message for told in (english, french) for mark in "{}")
    assert REASON not in french.message
    assert english_in(french.message) == set()
    if isinstance(exc, ModelError) and not isinstance(exc, UsageLimitReached):
        fault = classify(exc)
        for sentence in (english.message, fault.en, fault.fr):
            assert REASON not in sentence
        assert english.details == french.details == fault.details == REASON


def test_the_table_of_sentences_names_no_class_that_is_gone() -> None:
    named = {kind.__name__ for kind in MEANINGS} | {kind.__name__ for kind in exceptions_of_the_rooms()}
    assert set(ERRORS) <= named


def made(kind: type[Exception]) -> Exception:
    """Return an error of a kind, its facts made up."""
    if issubclass(kind, approvals.NotAllowed):
        return kind(code="four_eyes", user_id="ed", role="editor")
    if issubclass(kind, approvals.ProposalRefused):
        return kind(problems=[Problem(what=REASON)])
    if issubclass(kind, approvals.AlreadyDecided):
        return kind(approval_id="a", status="applied", by="ed", at=1)
    if issubclass(kind, LocalizedError) and kind.__init__ is LocalizedError.__init__:
        return kind()
    given = inspect.signature(kind).parameters.values()
    wanted = [p for p in given if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    hints = inspect.get_annotations(kind.__init__, eval_str=True)
    return kind(**{p.name: value_of(p.name, hints.get(p.name, str)) for p in wanted}, **extra(kind))


def extra(kind: type[Exception]) -> dict[str, Any]:
    """A time-out has a reason of its own unless it is given one."""
    return {"reason": REASON} if kind.__name__ == "ModelTimedOut" else {}


def value_of(name: str, hint: Any) -> Any:
    if name == "reason":
        return REASON
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    text = str(hint)
    if "Sequence" in text or "list" in text or "tuple" in text:
        return ("a", "b")
    if "int" in text:
        return 3
    if "float" in text:
        return 2.5
    return "x7"
