"""Checks an agent document: its shape, its texts, and that its parts fit together.

From outside: `check_document`, `CheckedDocument`, `checked_declarations`, `WARNINGS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import ValidationError

from graphrag.agents.compiled_agent import CompiledAgent, compile_agent
from graphrag.agents.document import AgentDocument, ToolDeclaration
from graphrag.agents.loading import read_document
from tools.http.problems import DocumentProblem

WARNINGS: Final = frozenset(
    (
        "undeclared_tool",
        "unset_flag",
        "ignored_field",
        "model_retires",
        "no_fallback_outcome",
        "unused_secret",
        "insecure_url",
        "host_unknown",
    )
)
"""Codes that do not keep an agent from running; every other code does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDocument:
    """A document with all that is wrong with it. `agent` is there when `errors` is empty.

    `resolved`: the document as plain JSON, its variables replaced; None where it cannot be read.
    """

    document: AgentDocument | None
    agent: CompiledAgent | None
    errors: tuple[DocumentProblem, ...]
    warnings: tuple[DocumentProblem, ...]
    resolved: Mapping[str, Any] | None


def check_document(
    raw: str | bytes | Mapping[str, Any], variables: Mapping[str, str] | None = None
) -> CheckedDocument:
    """Return a document, read, checked and compiled. Never raises; may take 50 ms: not for the event loop."""
    read = read_document(raw, variables)
    problems, document, agent = read.problems, None, None
    if read.document is not None:
        try:
            document = AgentDocument.model_validate(read.document)
        except ValidationError as exc:
            problems += [
                DocumentProblem(where=".".join(map(str, e["loc"])), code="wrong_type", what=e["msg"])
                for e in exc.errors()
            ]
        else:
            agent = compile_agent(document, problems)
    errors = tuple(problem for problem in problems if problem.code not in WARNINGS)
    return CheckedDocument(
        document=document,
        agent=None if errors else agent,
        errors=errors,
        warnings=tuple(problem for problem in problems if problem.code in WARNINGS),
        resolved=read.document,
    )


def checked_declarations(
    tools: Any, handlers: Collection[str]
) -> tuple[list[ToolDeclaration], list[tuple[str, str]]]:
    """Return the declarations of a fetched session that can be offered, and name and reason of the others."""
    kept: list[ToolDeclaration] = []
    dropped: list[tuple[str, str]] = []
    for item in cast(Sequence[Any], tools) if isinstance(tools, list) else ():
        try:
            declaration = ToolDeclaration.model_validate(item)
        except ValidationError as exc:
            dropped.append(("", str(exc)))
            continue
        if declaration.name in handlers:
            kept.append(declaration)
    return kept, dropped
