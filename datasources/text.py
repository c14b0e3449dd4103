"""Splits nodes and questions into the words that text search compares.

Independent of any store. All sources use this tokeniser, so that the index of a store and the one
in memory agree.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Container, Mapping
from itertools import chain
from typing import Any, NamedTuple, cast

import Stemmer

from datasources.types import Node, NodeTypeConfig, other_values
from languages.reading import folders, topic

MAX_FIELD_CHARS = 20_000  # longer code or data is indexed up to this length

LABEL_FIELDS = ("name", "title", "label", "displayName")

# A run of capitals before a capitalised word, a word, capitals, digits, or letters beyond ASCII.
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_a-zA-Z]+")
# A code of letters and digits, with separators before digits; else a word.
_CODE_OR_WORD = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Za-z]++[._-]?[0-9]|[0-9]++(?:[A-Za-z]|[._-][0-9]))"
    rf"[A-Za-z0-9]*+(?:[._-][0-9][A-Za-z0-9]*+)*+|{_WORD.pattern}"
)
_DIGIT = re.compile(r"[0-9]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_NOT_LETTERS = bytes(
    set(range(256)) - set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
)
_LOWER = bytes(range(256)).lower()
_PLAIN = {
    "ß": "ss",
    "œ": "oe",
    "æ": "ae",
    "ø": "o",
    "ł": "l",
    "đ": "d",
    "ð": "d",
    "þ": "th",
    "ı": "i",
}
_CAPITALS = {"ẞ": "SS", "Œ": "Oe", "Æ": "Ae", "Ø": "O", "Ł": "L", "Đ": "D", "Ð": "D", "Þ": "Th"}
# ASCII spellings of letters that Unicode normalisation does not decompose.
PLAIN_LETTERS = str.maketrans(_PLAIN | _CAPITALS)

# Version of the tokeniser. Stores compute their words again after a change of version.
# 2: `ß`, `œ`, `ø` and similar letters are replaced by plain ones, Greek's final sigma by a sigma.
WORDS_VERSION = 2
_SAME = PLAIN_LETTERS | str.maketrans({"’": "'", "ʼ": "'", "–": "-", "—": "-", "…": "."})
_NO_JOINTS = str.maketrans("", "", "-_")
_local = threading.local()

MAX_CODE_CHARS = 40  # longer codes are ids that nobody searches for

# Languages whose words are stemmed by their own rules before the English ones: ISO 639-1 code to
# name of the Snowball stemmer.
STEMMERS = {
    language: stemmer
    for language in folders()
    if (stemmer := topic(language, "language").get("stemmer"))
}

MAX_NAMES = 20


_OWN_COLUMNS = frozenset(("type", "data", "process"))


class NodeText(NamedTuple):
    """The searchable text of a node, part by part (the columns of a text index).

    `data` holds the words of every searched field that has no column of its own.
    """

    key: str
    name: str
    type: str
    type_name: str
    description: str
    data: str
    process: str

    @property
    def names(self) -> str:
        """The names of the node and its type: the `name` search field."""
        return f"{self.key} {self.name} {self.type} {self.type_name}"

    @property
    def content(self) -> str:
        """All text of the node: the `content` search field."""
        return f"{self.names} {self.description} {self.data} {self.process}"


def node_label(node: Node, config: NodeTypeConfig | None = None) -> str:
    """Returns a node's display name: the name in its data, else its type's name, else its key."""
    return label_in(node.data) or (config.display_name if config else "") or node.key


def label_in(data: Any) -> str:
    """Returns the name or title in a node's data, or ""."""
    if type(data) is dict or isinstance(data, Mapping):  # the first test is faster
        for field in LABEL_FIELDS:
            value = cast(Mapping[str, Any], data).get(field)
            if isinstance(value, str) and value.strip():
                return value.strip()
    return ""


def names_of(key: str, data: Any) -> list[str]:
    """Returns the names of a node: its label and the aliases in its data, at most `MAX_NAMES`."""
    aliases: Any = cast(Mapping[str, Any], data).get("aliases") if isinstance(data, Mapping) else ()
    label = label_in(data) or key
    listed: list[Any] = [label, *(aliases if isinstance(aliases, list | tuple) else [aliases])]
    return [name for name in listed[:MAX_NAMES] if isinstance(name, str)]


def letters(text: str) -> str:
    """Returns only the letters and digits of a text, folded, to compare spellings of a name."""
    if text.isascii():
        return text.encode().translate(_LOWER, _NOT_LETTERS).decode()
    return "".join(c for c in fold(text) if c.isalnum())


def fold(text: str) -> str:
    """Returns a text case-folded, without accents, with single spaces and ASCII punctuation for
    hyphens, dashes, apostrophes and ellipses.
    """
    spelt = unicodedata.normalize("NFKD", text.casefold().translate(_SAME))
    return " ".join("".join(c for c in spelt if not unicodedata.combining(c)).split())


def effective_process(node: Node, config: NodeTypeConfig | None) -> str:
    """Returns the node's own code, else its type's, else ""."""
    if node.process is not None:
        return node.process
    return (config.node.process or "") if config else ""


def node_text(
    node: Node, config: NodeTypeConfig | None = None, language: str | None = None
) -> NodeText:
    """Returns a node's searchable text. `config` is its type, if it is known.

    With the `language` of its graph, its name and data are replaced by stems of that language.
    """
    label = node_label(node, config)
    others = other_values(node, "searched", _OWN_COLUMNS)
    name = "" if letters(label) == letters(node.key) else label
    data = flatten([node.data, *others.values()] if others else node.data)
    return NodeText(
        key=node.key,
        name=stemmed(name, language),
        type=node.type,
        type_name=config.display_name if config else "",
        description=config.description if config else "",
        data=stemmed(data, language),
        process=effective_process(node, config)[:MAX_FIELD_CHARS],
    )


def flatten(value: Any) -> str:
    """Returns the keys, strings and numbers of a JSON value as text, up to MAX_FIELD_CHARS."""
    parts: list[str] = []
    size = 0
    stack: list[Any] = [value]
    while stack and size <= MAX_FIELD_CHARS:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            size += len(item) + 1
        elif type(item) is dict or isinstance(item, Mapping):
            pairs = cast(Mapping[str, Any], item)
            for key in reversed(list(pairs)):
                stack.append(pairs[key])
                stack.append(str(key))
        elif isinstance(item, list | tuple):
            stack.extend(reversed(cast(list[Any], item)))
        elif isinstance(item, int | float) and not isinstance(item, bool):
            number = str(item)
            parts.append(number)
            size += len(number) + 1
    return " ".join(parts)[:MAX_FIELD_CHARS]


def tokenize(text: str) -> list[str]:
    """Returns the lower-case stems of a text. Splits camelCase and snake_case, removes accents, and
    splits CJK into bigrams.

    A code such as `B2`, `v2.1` or `HTTP-404` is added after its parts: `b2`, `v2.1`, `http404`.

    Source: Porter, "An algorithm for suffix stripping" (1980), as revised in
    Snowball's English stemmer.
    """
    if text.isascii():
        if not _DIGIT.search(text):
            return list(map(_stem, _WORD.findall(text)))
        return list(chain.from_iterable(map(_with_parts, _CODE_OR_WORD.findall(text))))
    tokens: list[str] = []
    for word in _CODE_OR_WORD.findall(_fold(text)):
        if word.isascii():
            tokens += _with_parts(word)
            continue
        lower = word.casefold()
        if _CJK.search(lower):
            tokens.extend(lower[i : i + 2] for i in range(max(1, len(lower) - 1)))
        else:
            tokens.append(lower)
    return tokens


def _with_parts(word: str) -> tuple[str, ...]:
    """Returns the stem of a word, or the parts of a code and the code without separators."""
    if word.isalpha() or word.isdigit():
        return (_stem(word),)
    parts = map(_stem, _WORD.findall(word))
    if len(word) > MAX_CODE_CHARS:
        return tuple(parts)
    return (*parts, word.translate(_NO_JOINTS).lower())


class Word(NamedTuple):
    """A word of a text, in lower case without accents, and its stem."""

    text: str
    stem: str


def spelled(text: str) -> list[Word]:
    """Returns the words of a text with their stems. Runs of CJK are not split; codes are."""
    words = _WORD.findall(text if text.isascii() else _fold(text))
    return [
        Word(word.casefold(), _stem(word) if word.isascii() else word.casefold()) for word in words
    ]


def stems_among(text: str, known: Container[str]) -> tuple[str, ...]:
    """Returns the stems of the words of a text, or () if one of them is not in `known`."""
    stems: list[str] = []
    for word in _WORD.finditer(text if text.isascii() else _fold(text)):
        stem = _stem(word[0]) if word[0].isascii() else word[0].casefold()
        if stem not in known:
            return ()
        stems.append(stem)
    return tuple(stems)


def stemmed(text: str, language: str | None) -> str:
    """Returns a text with each word replaced by its stem; English text is returned unchanged."""
    if language not in STEMMERS:
        return text
    stem = _stemmer(STEMMERS[language])
    return _CODE_OR_WORD.sub(
        lambda word: f" {stem(word[0].lower())} " if word[0].isalpha() else word[0], _fold(text)
    )


def _fold(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.translate(PLAIN_LETTERS))
    kept = "".join(c for c in decomposed if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", kept)


def _stem(word: str) -> str:
    return word if word.isdigit() else _stemmer("english")(word.lower())


def _stemmer(name: str) -> Callable[[str], str]:
    """Returns the Snowball stemmer of this thread; stemmers are not thread-safe."""
    if not hasattr(_local, name):
        setattr(_local, name, cast(Any, Stemmer).Stemmer(name).stemWord)
    return getattr(_local, name)
