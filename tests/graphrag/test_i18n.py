"""The catalogues: the same texts with the same facts in both languages, and each of
them is used.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphrag.i18n import LANGUAGES, Text, catalogue, page_texts, places, text

ROOT = Path(__file__).parents[2]
ROOMS = ("cli", "datasources", "graphrag", "server", "tools")
ENGLISH = re.compile(
    r"\b(the|is|are|was|were|not|and|of|with|this|that|cannot|there|has|have|again|try|by|from|here|it|its"
    r"|nobody|somebody|nothing|wait|changed|since|said|your|you|no longer|another|wrong|missing|failed"
    r"|graph|node|edge|file|server|request|error|key|thread|found|known)\b"
)
OURS = re.compile(r"\{\w+\}|\{\{.*?\}\}|Node-RED|`[^`]*`|“[^”]*”|max_\w+")
ENGLISH_ONLY = {"reason", "problems", "sentence"}
"""Facts that the program writes in English; the French sentence says the same without them."""
MADE_UP = re.compile(
    r"block_|command_|data_|edit_|title_|schedule_wrong_|weekday_|month_short_|outcome_(?!feedback)|keys_|usage_(limit|tokens|dollars)"
    r"|already_(?!proposed)|stale_|failed_|token_|import_|class_|level_|format_(leaked|no_call|empty|refused)|note_|problem_|http_|suggest_|graph_was_|run_limit_"
)
"""Beginnings of keys that the rooms put together from a kind."""


def english_in(sentence: str) -> set[str]:
    return {found[0] for found in ENGLISH.finditer(OURS.sub("", sentence).lower())}


def service_keys() -> set[str]:
    return set(catalogue("en")) - set(page_texts("en"))


def forms(found: Text) -> list[str]:
    return [found] if isinstance(found, str) else list(found.values())


def test_both_languages_have_the_same_texts_which_need_the_same_facts() -> None:
    english, french = (catalogue(language) for language in LANGUAGES)
    assert list(english) == list(french)
    for key in english:
        needed = places(english[key])
        needed_in_french = places(french[key])
        assert needed - needed_in_french <= ENGLISH_ONLY, key
        assert needed_in_french <= needed or "sentence" in needed, key
        assert "reason" not in places(french[key]) or key in page_texts("fr"), key
        assert isinstance(english[key], str) == isinstance(french[key], str), key


def test_no_text_is_empty_and_no_french_text_is_english() -> None:
    for key, found in catalogue("fr").items():
        for form in forms(found):
            assert form.strip(), key
            assert key in ("offline.how",) or english_in(form) == set(), key


def test_a_missing_text_or_fact_fails() -> None:
    with pytest.raises(KeyError):
        text("no_such_text", "en")
    with pytest.raises(KeyError):
        text("words_only_in", "en")
    with pytest.raises(KeyError):
        text("TooManyRequests", "en")


def test_a_plural_is_chosen_by_each_language_and_a_fact_is_only_text() -> None:
    assert text("title_conflicts", "en", n=0, file="{n}") != text(
        "title_conflicts", "en", n=1, file="{n}"
    )
    assert text("title_conflicts", "fr", n=0, file="f").startswith("reprendre 0 différence de")
    assert "“{n}”" in text("title_conflicts", "en", n=2, file="{n}")


def test_every_text_that_the_rooms_name_is_there_with_its_facts() -> None:
    english = catalogue("en")
    for place, key, facts in _uses():
        assert key in english, f"{place} names {key}"
        assert facts is None or places(english[key]) <= facts, (
            f"{place}: {key} needs {places(english[key])}"
        )


def test_every_text_of_the_service_is_used() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in _sources())
    used = {*code.split('"'), *code.split("'"), *re.findall(r"class (\w+)\(", code)}
    assert {key for key in service_keys() if not MADE_UP.match(key)} <= used


def _sources() -> Iterator[Path]:
    return (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))


def _uses() -> Iterator[tuple[str, str, set[str] | None]]:
    """Yield where a text is asked for by its name, its key, and the facts given (None:
    by a mapping).
    """
    for path in _sources():
        source = path.read_text(encoding="utf-8")
        if "graphrag.i18n" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            key = node.args[0]
            if node.func.id in ("text", "text_of") and isinstance(key, ast.Constant):
                names = {word.arg for word in node.keywords}
                yield (
                    f"{path.name}:{node.lineno}",
                    str(key.value),
                    None if None in names else {name for name in names if name},
                )
