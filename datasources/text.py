"""Turns nodes and questions into the words that text search compares; knows no store.

One tokeniser serves every source, so that a store's own index and the in-memory one agree.
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

MAX_FIELD_CHARS = 20_000
"""Longer code or data is indexed up to here: one node must not drown a graph."""

LABEL_FIELDS = ("name", "title", "label", "displayName")

# A run of capitals before a capitalised word, a word, capitals, digits, or letters beyond ASCII.
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_a-zA-Z]+")
# Letters and digits that are one name, with joints before digits; else a word.
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
PLAIN_LETTERS = str.maketrans(_PLAIN | _CAPITALS)
"""Letters that no decomposition takes apart, as they are written without them."""

WORDS_VERSION = 2
"""Stores that keep words make them anew where they were made by an older version.

2: `ß`, `œ`, `ø` and their like are written with plain letters, and Greek's final sigma is a sigma.
"""
_SAME = PLAIN_LETTERS | str.maketrans({"’": "'", "ʼ": "'", "–": "-", "—": "-", "…": "."})
_NO_JOINTS = str.maketrans("", "", "-_")
_local = threading.local()

MAX_CODE_CHARS = 40
"""Longer ones are ids that nobody asks for."""

STEMMERS = {
    language: stemmer
    for language in folders()
    if (stemmer := topic(language, "language").get("stemmer"))
}
"""Languages whose words are stemmed by their own rules before the English ones, by ISO 639-1 code,
with the names of their Snowball stemmers.
"""

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
        """What the node is called: the `name` search field."""
        return f"{self.key} {self.name} {self.type} {self.type_name}"

    @property
    def content(self) -> str:
        """All of it: the `content` search field."""
        return f"{self.names} {self.description} {self.data} {self.process}"


def node_label(node: Node, config: NodeTypeConfig | None = None) -> str:
    """Return what a person calls the node: its data's name or title, else its type's name,
    else its key.
    """
    return label_in(node.data) or (config.display_name if config else "") or node.key


def label_in(data: Any) -> str:
    """Return the name or title that a node's data give it, empty where they give none."""
    if type(data) is dict or isinstance(data, Mapping):  # the first is known at once
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
    """Return what two spellings of one name share: a key made from a name must not count twice."""
    if text.isascii():
        return text.encode().translate(_LOWER, _NOT_LETTERS).decode()
    return "".join(c for c in fold(text) if c.isalnum())


def fold(text: str) -> str:
    """Return a text case-folded, without accents, with single blanks and plain
    hyphens and apostrophes.
    """
    spelt = unicodedata.normalize("NFKD", text.casefold().translate(_SAME))
    return " ".join("".join(c for c in spelt if not unicodedata.combining(c)).split())


def effective_process(node: Node, config: NodeTypeConfig | None) -> str:
    """Return the node's own code, else its type's, else nothing."""
    if node.process is not None:
        return node.process
    return (config.node.process or "") if config else ""


def node_text(
    node: Node, config: NodeTypeConfig | None = None, language: str | None = None
) -> NodeText:
    """Collect a node's searchable text; `config` is its type, where one is known.

    With the language of its graph, what it is called and holds is in the stems of that language.
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
    """Return the words of a JSON value: its keys, strings and numbers, in order,
    up to MAX_FIELD_CHARS.
    """
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
    """Split into lower-case stems: camelCase and snake_case apart, diacritics
    folded, CJK in bigrams.

    A code such as `B2`, `v2.1` or `HTTP-404` follows its parts whole: `b2`, `v2.1`, `http404`.

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
    """Return the stem of a word; of a code its parts, and the code without
    hyphens and underscores.
    """
    if word.isalpha() or word.isdigit():
        return (_stem(word),)
    parts = map(_stem, _WORD.findall(word))
    if len(word) > MAX_CODE_CHARS:
        return tuple(parts)
    return (*parts, word.translate(_NO_JOINTS).lower())


class Word(NamedTuple):
    """A word of a text: as it is written, in lower case and without accents, and
    as it is compared.
    """

    text: str
    stem: str


def spelled(text: str) -> list[Word]:
    """Return the words of a text with their stems; runs of CJK stay whole, and codes
    are their parts.
    """
    words = _WORD.findall(text if text.isascii() else _fold(text))
    return [
        Word(word.casefold(), _stem(word) if word.isascii() else word.casefold()) for word in words
    ]


def stems_among(text: str, known: Container[str]) -> tuple[str, ...]:
    """Returns the stems of the words of a text; nothing where one of them is not among `known`."""
    stems: list[str] = []
    for word in _WORD.finditer(text if text.isascii() else _fold(text)):
        stem = _stem(word[0]) if word[0].isascii() else word[0].casefold()
        if stem not in known:
            return ()
        stems.append(stem)
    return tuple(stems)


def stemmed(text: str, language: str | None) -> str:
    """Return a text with the stem of each word by the rules of its language; as
    it is in English.
    """
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
    """Return a Snowball stemmer, which must stay in its thread."""
    if not hasattr(_local, name):
        setattr(_local, name, cast(Any, Stemmer).Stemmer(name).stemWord)
    return getattr(_local, name)
