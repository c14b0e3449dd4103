"""Checks an agent document: its shape, its templates, and that its parts fit together.

From outside: `check_document`, `CheckedDocument`; `WARNINGS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, final

from pydantic import ValidationError

from graphrag.agents.compiled_agent import CompiledAgent, compile_agent
from graphrag.agents.document import AgentDocument
from graphrag.agents.document_paths import unknown_paths, unset_values
from graphrag.agents.document_rules import broken_rules, warnings_of
from graphrag.agents.loading import read_document
from graphrag.agents.shape_problems import MAX_PROBLEMS, shape_problems, without_parts
from tools.http.problems import DocumentProblem

MAX_TEXT: Final = 500
WARNINGS: Final = frozenset(
    (
        *("undeclared_tool", "unset_flag", "ignored_field", "model_retires", "no_fallback_outcome"),
        *("unused_secret", "insecure_url", "host_unknown", "unknown_model"),
        *("model_not_tried", "no_voice_model", "transcription_refused", "unset_value"),
    )
)
"""Codes of problems with which an agent still runs."""
_ALLOWED: Final = {
    "bad_template": "{{ path }}, {{ path | filter }}",
    "bad_jsonpath": "JSONPath (RFC 9535)",
    "body_with_get": "params, or another method",
    "both_body_and_builder": "one of the two",
    "duplicate_name": "each name once",
    "missing_base_url": "a base_url in the document",
    "missing_field": "a value",
    "reserved_name": "any other name",
}
"""Allowed values by code, if the problem names none."""
_OF_THE_WHOLE: Final = frozenset(
    (
        "missing_base_url",
        "undeclared_secret",
        "unhandled_tool",
        "unknown_destination",
        "propose_needs_editor",
    )
)
"""Codes that may be caused by a part that was left out because of its shape."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDocument:
    """A document with all its problems. `agent` is set if there are no `errors`.

    `resolved`: the document as plain JSON with its variables replaced; None if it cannot be read.
    """

    document: AgentDocument | None
    agent: CompiledAgent | None
    errors: tuple[DocumentProblem, ...]
    warnings: tuple[DocumentProblem, ...]
    resolved: Mapping[str, Any] | None


def check_document(
    raw: str | bytes | Mapping[str, Any],
    variables: Mapping[str, str] | None = None,
    *,
    is_stored: bool = False,
) -> CheckedDocument:
    """Reads, checks and compiles a document. Never raises. May take 50 ms: not for the event loop.

    `is_stored`: it was stored as valid, perhaps by an older program: its paths are not checked.
    """
    read = read_document(raw, variables)
    problems = read.problems
    document = None
    agent = None
    if read.document is not None:
        document, agent = _checked(read.document, problems, is_stored=is_stored)
    errors = [problem for problem in problems if problem.code not in WARNINGS]
    warnings = [problem for problem in problems if problem.code in WARNINGS]
    return CheckedDocument(
        document=document,
        agent=None if errors else agent,
        errors=tuple(_complete(problem) for problem in errors[:MAX_PROBLEMS]),
        warnings=tuple(_complete(problem) for problem in warnings[:MAX_PROBLEMS]),
        resolved=read.document,
    )


def _complete(problem: DocumentProblem) -> DocumentProblem:
    """Returns a problem with its allowed values, and with long names cut."""
    allowed = problem.allowed or _ALLOWED.get(problem.code)
    return replace(
        problem,
        where=problem.where[:MAX_TEXT],
        what=problem.what[:MAX_TEXT],
        allowed=allowed and allowed[: 2 * MAX_TEXT],
    )


def _checked(
    raw: dict[str, Any], problems: list[DocumentProblem], *, is_stored: bool
) -> tuple[AgentDocument | None, CompiledAgent | None]:
    """Adds the problems of a document to `problems`. Returns the document and the compiled
    agent.
    """
    try:
        document = AgentDocument.model_validate(raw)
    except ValidationError as exc:
        _say_shape(exc, raw, problems)
        return None, None
    broken = [*broken_rules(document), *(() if is_stored else unknown_paths(document))]
    problems.extend(broken)
    if broken:
        return document, None
    agent = compile_agent(document)
    problems.extend((*warnings_of(agent), *unset_values(document)))
    return document, agent


def _say_shape(exc: ValidationError, raw: dict[str, Any], problems: list[DocumentProblem]) -> None:
    """Adds the problems of the shape, and those of the parts with a valid shape."""
    found = shape_problems(exc, raw)
    problems.extend(found.values())
    if len(found) >= MAX_PROBLEMS:
        return
    try:
        rest = AgentDocument.model_validate(without_parts(raw, found))
    except ValidationError:
        return
    said = {problem.where for problem in problems}
    more = (problem for problem in broken_rules(rest) if problem.code not in _OF_THE_WHOLE)
    problems.extend(problem for problem in more if problem.where not in said)
