"""Checks the paths that a document reads: each must lead to an argument, a stored value or a field.

A path that leads nowhere is null at run time without any error, so mistyped names are found here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel

from graphrag.agents.declared_tools import referred
from graphrag.agents.document import AgentDocument
from graphrag.agents.session_fields import FetchedSession
from graphrag.agents.shape_problems import near
from tools.http.compiled import reads_in
from tools.http.json_paths import Path
from tools.http.model import RESERVED_CTX, HttpTool
from tools.http.problems import DocumentProblem
from tools.http.scope import KNOWN, Names, ValuePath

AGENT_FIELDS: Final = ("id", "name", "type", "language", "timezone")
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
_CONDITIONS: Final = ("if", "then", "else")
MAX_REFERENCES: Final = 20
ALIKE: Final = 0.8  # how alike two names are of which one is taken for a mistyped form of the other
_SHOWN: Final = 30


def unknown_paths(document: AgentDocument) -> Iterator[DocumentProblem]:
    """Yields the paths of a document with a valid shape that lead nowhere."""
    stored = stored_names(document)
    for where, part, parameters in _parts(document):
        for place, reads, names in reads_in(part, where, frozenset()):
            for path, column in reads:
                found = _unknown(path, document, stored, parameters, names)
                if found is not None:
                    what, allowed = found
                    yield DocumentProblem(
                        where=place, code="unknown_path", what=what, allowed=allowed, column=column
                    )


def unset_values(document: AgentDocument) -> Iterator[DocumentProblem]:
    """Yields the values that a document reads and nothing can set; each is null."""
    stored = stored_names(document)
    said = set[str]()
    is_inline = not isinstance(document.session, FetchedSession)
    for where, part, _ in _parts(document):
        for place, reads, _ in reads_in(part, where, frozenset()):
            for path, column in reads:
                read = ".".join(map(str, path[:2]))
                is_unset = path[:1] == ("ctx",) and len(path) > 1 and path[1] not in stored
                if read not in said and (is_unset or (is_inline and path[:1] == ("session",))):
                    said.add(read)
                    known = ", ".join(sorted(stored)[:_SHOWN])
                    what = f"nothing sets {read}: it is null"
                    yield DocumentProblem(
                        where=place, code="unset_value", what=what, allowed=known, column=column
                    )


def stored_names(document: AgentDocument) -> frozenset[str]:
    """Returns the names in ctx that the document or the service can set."""
    lifecycle = document.lifecycle
    session = document.session
    names = set[str](RESERVED_CTX)
    for tool in document.tools.values():
        names.update(tool.on_success_flags)
        if isinstance(tool, HttpTool):
            names.update(tool.store_in_ctx)
    for request in (lifecycle.on_start, lifecycle.on_no_action):
        names.update(request.store_in_ctx if request is not None else ())
    if isinstance(session, FetchedSession):
        names.update(session.response_mapping.ctx_init)
    return frozenset(names)


def _parts(document: AgentDocument) -> Iterator[tuple[str, Any, Mapping[str, Any] | None]]:
    """Yields the parts of a document with their places; a tool's with its declared arguments."""
    session = document.session
    declared: dict[str, Mapping[str, Any]] = {}
    if not isinstance(session, FetchedSession):  # the arguments of others are known in the call
        declared = {each.name: each.parameters for each in session.tools}
    for name, tool in document.tools.items():
        yield f"tools.{name}", tool, declared.get(name)
    for name in type(document).model_fields:
        part: Any = getattr(document, name)
        if name != "tools" and isinstance(part, BaseModel | list | dict):
            yield name, part, None


def _unknown(
    path: ValuePath,
    document: AgentDocument,
    stored: frozenset[str],
    parameters: Mapping[str, Any] | None,
    names: Names,
) -> tuple[str, str] | None:
    """Returns the problem of a path and what is allowed; None if it may lead somewhere."""
    word = path[0]
    rest = path[1:]
    if not rest:
        return None
    name = str(rest[0])
    shown = ".".join(map(str, path))
    match word:
        case "args" if parameters is not None and not _leads(parameters, rest, parameters):
            known = sorted(_properties(parameters))
            what = f"the declaration of the tool has no argument {shown}"
        case "ctx" if name not in stored and near(
            name, stored, cutoff=ALIKE
        ):  # others are `unset_values`
            known = sorted(stored)
            what = f"nothing stores {shown}"
        case "pre" if name not in names and name not in KNOWN:
            known = sorted(names - KNOWN)
            what = f"no step before extracts {shown}"
        case "agent" if name not in AGENT_FIELDS:
            known = list(AGENT_FIELDS)
            what = f"an agent has no {name}"
        case "session":
            return _unknown_of_session(document, shown, name)
        case _:
            return None
    return f"{what}{near(name, known)}", ", ".join(known[:_SHOWN]) or "a name that is set somewhere"


def _unknown_of_session(document: AgentDocument, shown: str, name: str) -> tuple[str, str] | None:
    """Returns the problem of a field of the session's response.

    A response may have more fields than the document maps: only a name close to a mapped one is
    taken for a mistake.
    """
    session = document.session
    if not isinstance(session, FetchedSession):  # it has no answer: see `unset_values`
        return None
    mapping = session.response_mapping
    paths = (mapping.instructions, mapping.tools, mapping.voice, *mapping.ctx_init.values())
    mapped = {
        step for each in paths if each is not None and (step := _first_step(each)) is not None
    }
    meant = "" if name in mapped else near(name, sorted(mapped), cutoff=ALIKE)
    return (f"the document maps no {shown}{meant}", ", ".join(sorted(mapped))) if meant else None


def _first_step(path: Path) -> str | None:
    steps = path.steps or ()
    return steps[0] if steps and isinstance(steps[0], str) else None


def _properties(rules: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the properties that a JSON Schema names; none if they have a wrong form."""
    named = rules.get("properties")
    return cast(dict[str, Any], named) if isinstance(named, dict) else {}


def _leads(
    schema: object, path: Sequence[str | int], whole: Mapping[str, Any], references: int = 0
) -> bool:
    """Returns whether a JSON Schema allows a path. Undescribed properties are allowed."""
    if not isinstance(schema, dict) or not path or references > MAX_REFERENCES:
        return schema is not False
    rules = cast(dict[str, Any], schema)
    if isinstance(target := rules.get("$ref"), str):
        return _leads(referred(target, whole), path, whole, references + 1)
    lists = [rules[word] for word in _BRANCHES if isinstance(rules.get(word), list)]
    branches = [each for listed in lists for each in cast(list[Any], listed)]
    branches += [rules[word] for word in _CONDITIONS if word in rules]
    if any(_describes(each, whole) and _leads(each, path, whole, references) for each in branches):
        return True
    step = path[0]
    rest = path[1:]
    if isinstance(step, int) or (step.isdigit() and "items" in rules):
        return _leads(rules.get("items", True), rest, whole, references)
    properties = _properties(rules)
    if step in properties:
        return _leads(properties[step], rest, whole, references)
    more = rules.get("additionalProperties", rules.get("unevaluatedProperties"))
    if more not in (None, False):
        return _leads(more, rest, whole, references)
    is_described = (
        "properties" in rules or more is False or any(_describes(each, whole) for each in branches)
    )
    return "patternProperties" in rules or not is_described


def _describes(schema: object, whole: Mapping[str, Any]) -> bool:
    """Returns whether a branch of a schema names properties."""
    rules: Mapping[str, Any] = cast(dict[str, Any], schema) if isinstance(schema, dict) else {}
    if isinstance(target := rules.get("$ref"), str):
        found = referred(target, whole)
        rules = cast(dict[str, Any], found) if isinstance(found, dict) else {}
    return bool(rules.keys() & {"properties", "additionalProperties", *_BRANCHES})
