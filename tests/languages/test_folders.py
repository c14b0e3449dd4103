"""The folders of languages hold the same files and entries, and no module holds a language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from languages import LANGUAGES, GraphLanguage, Language
from languages.reading import FOLDER, LanguageIncomplete, alternatives, folders, read_tables, topic

ROOT = Path(__file__).parents[2]
OTHERS = [language for language in LANGUAGES if language != "en"]
NAMED = re.compile(
    r"""["'](fr|french|eo)["']|\b(est-ce|quels?|quelles?|ajoute|supprime|nœud|noe?ud)\b"""
)
"""How a module would name another language than English, or read it."""


def files(language: str) -> set[str]:
    folder = FOLDER / language
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("language", OTHERS)
def test_every_language_has_the_files_and_entries_of_english(language: Language) -> None:
    assert files(language) == files("en")
    for name, entries in read_tables("en", "words.toml").items():
        assert topic(language, name).keys() - {"stemmer"} == entries.keys(), name
    for name in ("words", "texts"):
        english = read_tables("en", "rules.toml")[name]
        own = read_tables(language, "rules.toml")[name]
        assert english.keys() <= own.keys() | {"quick"}, name


def test_every_pattern_of_words_compiles_with_every_language() -> None:
    for name, entries in read_tables("en", "words.toml").items():
        for key in entries:
            assert re.compile(alternatives(name, key)).groups == 0, (name, key)


def test_graphs_may_be_written_in_every_language_that_has_a_stemmer() -> None:
    stemmed = {one for one in folders() if "stemmer" in topic(one, "language")}
    assert stemmed == set(GraphLanguage.__args__)
    assert set(LANGUAGES) <= set(folders())


def test_a_file_or_entry_that_a_language_lacks_is_named() -> None:
    with pytest.raises(LanguageIncomplete, match=r"languages/de has no rules\.toml"):
        read_tables("de", "rules.toml")
    with pytest.raises(LanguageIncomplete, match=r"languages/de has no \[changes\] in words\.toml"):
        topic("de", "changes")


def test_no_module_names_or_reads_a_language_other_than_english() -> None:
    rooms = ("cli", "datasources", "graphrag", "server", "tools")
    sources = [
        path
        for room in rooms
        for path in (ROOT / room).rglob("*")
        if path.suffix in (".py", ".js", ".toml")
    ]
    assert len(sources) > 400
    found = {
        path.relative_to(ROOT).as_posix(): match[0]
        for path in sources
        if (match := NAMED.search(path.read_text(encoding="utf-8")))
    }
    assert found == {}
