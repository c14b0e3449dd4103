"""The table of meanings: every exception of the rooms is in it, in both languages."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest

from datasources import errors as data
from graphrag.config import SettingsError
from graphrag.embedding import base
from graphrag.errors import EXIT_NOTHING, EXIT_USAGE, MEANINGS, describe
from graphrag.i18n import MESSAGES, message

ROOMS = ("datasources", "graphrag", "tools")


def exceptions_of_the_rooms() -> Iterator[type[Exception]]:
    """Yield every exception class that a module of the rooms defines for others."""
    for room in ROOMS:
        package = importlib.import_module(room)
        names = [room, *(m.name for m in pkgutil.walk_packages(package.__path__, f"{room}."))]
        for name in names:
            for _, member in inspect.getmembers(importlib.import_module(name), inspect.isclass):
                own = member.__module__ == name and not member.__name__.startswith("_")
                if own and issubclass(member, Exception):
                    yield member


def test_every_exception_that_is_raised_has_a_meaning() -> None:
    found = set(exceptions_of_the_rooms())
    assert {data.GraphNotFound, SettingsError, base.EmbeddingRefused} <= found
    raised = {kind for kind in found if not kind.__subclasses__()}  # a base is caught, never raised
    unmapped = {kind for kind in raised if not any(parent in MEANINGS for parent in kind.__mro__)}
    assert unmapped == set(), f"give these a row in graphrag.errors.MEANINGS: {unmapped}"


def test_the_table_names_nothing_that_is_gone() -> None:
    assert set(MEANINGS) <= set(exceptions_of_the_rooms())


@pytest.mark.parametrize("kind", MEANINGS, ids=lambda kind: kind.__name__)
def test_a_meaning_can_be_told_in_both_languages(kind: type[Exception]) -> None:
    meaning = MEANINGS[kind]
    assert meaning.code in MESSAGES
    assert 400 <= meaning.http_status <= 599
    assert meaning.exit_code in (1, 2, 3)


@pytest.mark.parametrize("code", MESSAGES)
def test_a_message_is_there_in_french_and_english_and_they_differ(code: str) -> None:
    assert set(MESSAGES[code]) == {"en", "fr"}
    assert message(code, "en").strip()
    assert message(code, "fr").strip()
    assert message(code, "en") != message(code, "fr")


def test_a_description_has_the_facts_and_the_language_asked_for() -> None:
    missing = data.GraphNotFound(graph_key="flow-7")
    english, french = describe(missing, "en"), describe(missing, "fr")
    assert english is not None
    assert french is not None
    assert (english.code, english.http_status, english.exit_code) == ("not_found", 404, EXIT_NOTHING)
    assert english.message.startswith("Not found: ")
    assert french.message.startswith("Introuvable : ")
    assert "flow-7" in english.message
    assert "flow-7" in french.message


def test_an_unforeseen_error_has_no_description() -> None:
    assert describe(KeyError("x"), "en") is None
    assert describe(RuntimeError("x"), "fr") is None


def test_a_conflict_may_be_tried_again_and_a_wrong_setting_may_not() -> None:
    conflict = describe(data.RevisionConflict(graph_key="g", expected=1, actual=2), "en")
    wrong = describe(SettingsError(name="mode", origin="here", reason="no"), "en")
    assert conflict is not None
    assert wrong is not None
    assert conflict.retryable
    assert not wrong.retryable
    assert wrong.exit_code == EXIT_USAGE


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (404, False), (429, True), (503, True)])
def test_a_refused_embedding_may_be_tried_again_when_the_service_says_so(
    status: int, retryable: bool
) -> None:
    refused = base.EmbeddingRefused(provider="p", status=status, reason="r", retryable=retryable)
    described = describe(refused, "en")
    assert described is not None
    assert described.retryable is retryable
    assert described.code == ("rate_limit" if status == 429 else "server_error")
