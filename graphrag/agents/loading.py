"""Reads an agent document: JSON or YAML of the same shape, limits, and `${NAME}` variables.

From outside: `read_document`, `ReadDocument`.

Decision: YAML is built from its parser's events, with the values of JSON only. Tags, aliases and
dates cannot create objects or large documents, and nothing here recurses in C.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast, final

import yaml

from tools.http.problems import BadText, DocumentProblem

MAX_BYTES: Final = 256_000
MAX_DEPTH: Final = 32
MAX_TWICE: Final = 10
_NAME = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,300})(\.[0-9]{1,300})?([eE][-+]?[0-9]{1,3})?", re.ASCII)
_WORDS: Final = {"null": None, "~": None, "": None, "true": True, "false": False}
_SHAPE = "JSON in UTF-8, or YAML with the same kinds of values"


@final
@dataclass(slots=True, kw_only=True)
class ReadDocument:
    """A document with its variables replaced. None if it cannot be read."""

    document: dict[str, Any] | None = None
    problems: list[DocumentProblem] = field(default_factory=list[DocumentProblem])


@final
class _Pairs(dict[str, Any]):
    """An object with a repeated name; the first of these names."""

    __slots__ = ("twice",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        times = Counter(name for name, _ in pairs)
        self.twice = sorted(name for name in times if times[name] > 1)[:MAX_TWICE]


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Pairs(pairs)


def read_document(
    source: str | bytes | Mapping[str, Any], variables: Mapping[str, str] | None = None
) -> ReadDocument:
    """Returns the document as new dicts, lists and values. Never raises."""
    reading = _Reading(variables or {})
    document = None
    try:
        document = reading.document(source if isinstance(source, Mapping) else _parsed(source))
    except BadText as bad:
        reading.problems.append(bad.at(""))
    return ReadDocument(document=document, problems=reading.problems)


def _parsed(source: str | bytes) -> Any:
    if len(source) > MAX_BYTES:
        raise _too_large()
    try:
        text = (
            source.decode("utf-8-sig")
            if isinstance(source, bytes)
            else source.removeprefix("\ufeff")
        )
    except UnicodeDecodeError as exc:
        raise BadText("wrong_type", f"byte {exc.start} is no UTF-8", allowed=_SHAPE) from None
    return _from_json(text) if text.lstrip()[:1] in ("{", "[") else _from_yaml(text)


def _too_large() -> BadText:
    return BadText("too_large", "the document is too large", allowed=f"{MAX_BYTES // 1000} kB")


def _too_deep() -> BadText:
    return BadText("too_deep", "the document is nested too deeply", allowed=f"{MAX_DEPTH} levels")


def _from_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object_of, parse_constant=_no_number)
    except json.JSONDecodeError as exc:
        what = f"no JSON: {exc.msg} in line {exc.lineno}"
        raise BadText("wrong_type", what, allowed=_SHAPE, column=exc.colno) from None
    except RecursionError:
        raise _too_deep() from None
    except BadText:
        raise
    except ValueError:  # a number of thousands of digits
        raise BadText(
            "out_of_range", "a number is too long", allowed="numbers of 300 digits"
        ) from None


def _no_number(word: str) -> Any:
    raise BadText("wrong_type", f"{word} is no number of JSON", allowed="finite numbers")


def _from_yaml(text: str) -> Any:
    """Returns the value of the only document of a YAML text."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the former where libyaml is there
    try:
        return _built(cast(Any, yaml).parse(text, Loader=loader))
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        what = f"no YAML: {exc.problem or exc.context} in line {line}"
        raise BadText("wrong_type", what, allowed=_SHAPE, column=column) from None
    except BadText:
        raise
    except (yaml.YAMLError, ValueError) as exc:  # characters that YAML forbids
        raise BadText("wrong_type", f"no YAML: {str(exc)[:200]}", allowed=_SHAPE) from None


def _built(events: Iterator[Any]) -> Any:
    """Returns the value that parser events describe, without recursion."""
    stack: list[tuple[bool, list[Any]]] = [(False, [])]
    for event in events:
        match event:
            case yaml.AliasEvent():
                raise _yaml_problem("an alias (*name)", event)
            case yaml.ScalarEvent() | yaml.CollectionStartEvent() if event.tag not in (None, "!"):
                raise _yaml_problem(f"the tag {event.tag}", event)
            case yaml.CollectionStartEvent():
                if len(stack) > MAX_DEPTH:
                    raise _too_deep()
                stack.append((isinstance(event, yaml.MappingStartEvent), []))
            case yaml.CollectionEndEvent():
                is_mapping, values = stack.pop()
                stack[-1][1].append(_mapping(values, event) if is_mapping else values)
            case yaml.ScalarEvent():
                is_key = stack[-1][0] and len(stack[-1][1]) % 2 == 0
                stack[-1][1].append(event.value if is_key else _scalar(event))
            case _:
                pass
    found = stack[0][1]
    if len(found) != 1:
        raise BadText("wrong_type", f"{len(found)} documents in one file", allowed="one")
    return found[0]


def _mapping(values: list[Any], event: Any) -> dict[str, Any]:
    keys = values[::2]
    if not all(isinstance(key, str) for key in keys):
        raise _yaml_problem("a name that is no text", event)
    return _object_of(list(zip(keys, values[1::2], strict=True)))


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.style in ("'", '"', "|", ">"):
        return text
    if text in _WORDS:
        return _WORDS[text]
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _yaml_problem(what: str, event: Any) -> BadText:
    mark = event.start_mark
    return BadText(
        "wrong_type",
        f"{what} in line {mark.line + 1} is not read",
        allowed=_SHAPE,
        column=mark.column + 1,
    )


@final
class _Reading:
    """Copies a document: limits its depth and size, replaces variables, reports values JSON
    lacks.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.problems: list[DocumentProblem] = []
        self._left = MAX_BYTES
        self._unresolved: dict[str, str] = {}

    def document(self, value: Any) -> dict[str, Any]:
        """Returns a copy of a document. Raises: BadText (wrong_type, too_deep, too_large)."""
        if not isinstance(value, Mapping):
            raise BadText("wrong_type", "the document is no object", allowed=_SHAPE)
        copy = self._copied(value, ())
        if self._unresolved:
            what = f"no value for {', '.join(sorted(self._unresolved)[:20])}"
            given = ", ".join(sorted(self._variables)[:20]) or "no variables were given"
            self._say(next(iter(self._unresolved.values())), "unresolved_variable", what, given)
        return copy

    def _copied(self, value: Any, path: tuple[str, ...]) -> Any:
        self._left -= 2
        if isinstance(value, str):
            value = self._text(value, path)
        elif isinstance(value, bool) or value is None:
            pass
        elif isinstance(value, int | float):
            if not -1e300 < value < 1e300:  # infinite, not a number, or of hundreds of digits
                allowed = "numbers between -1e300 and 1e300"
                self._say(".".join(path), "out_of_range", "the number is out of range", allowed)
                value = 0
        elif len(path) >= MAX_DEPTH:
            what = f"{'.'.join(path)[:300]} is nested too deeply"
            raise BadText("too_deep", what, allowed=f"{MAX_DEPTH} levels")
        elif isinstance(value, list | tuple):
            members = enumerate(cast(list[Any], value))
            value = [self._copied(member, (*path, str(index))) for index, member in members]
        elif isinstance(
            value, (dict, Mapping)
        ):  # dict first: asking for Mapping takes a microsecond
            value = self._object(cast(Mapping[Any, Any], value), path)
        else:
            what = f"a {type(value).__name__} is no value of JSON"
            self._say(".".join(path), "wrong_type", what, _SHAPE)
            value = None
        if self._left < 0:
            raise _too_large()
        return value

    def _object(self, value: Mapping[Any, Any], path: tuple[str, ...]) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for name, member in value.items():
            if isinstance(name, str) and name.isprintable():
                self._left -= len(name.encode())
                copy[name] = self._copied(member, (*path, name))
            else:
                what = f"{ascii(name)[:80]} is no name"
                self._say(".".join(path), "bad_name", what, "a text of printable characters")
        for name in value.twice if isinstance(value, _Pairs) else ():
            what = f"{name[:80]} stands twice in one object"
            self._say(".".join((*path, name)), "duplicate_name", what, "each name once")
        return copy

    def _text(self, value: str, path: tuple[str, ...]) -> str:
        def variable(found: re.Match[str]) -> str:
            if found[1] not in self._variables:
                self._unresolved.setdefault(found[1], ".".join(path))
            return self._variables.get(found[1], found[0])

        if "${" in value:
            self._left -= sum(len(self._variables.get(name, "")) for name in _NAME.findall(value))
            if self._left < 0:
                raise _too_large()
            value = _NAME.sub(variable, value)
        try:
            self._left -= len(value) if value.isascii() else len(value.encode())
        except UnicodeEncodeError:
            what = "half of a surrogate pair stands in the text"
            self._say(".".join(path), "wrong_type", what, "text in Unicode")
            return "?"
        return value

    def _say(self, where: str, code: str, what: str, allowed: str) -> None:
        self.problems.append(DocumentProblem(where=where, code=code, what=what, allowed=allowed))
