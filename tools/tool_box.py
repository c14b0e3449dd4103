"""The tool box: offers tools to roles and sessions, and runs their calls.

A wrong call is never an exception: its result says what is wrong, where, what is allowed, and
shows an example of a correct call, so that the model can correct itself.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, final

from pydantic import ValidationError

from datasources import errors
from languages import Language
from tools.arguments import MalformedArguments, parse_arguments, wrong_arguments
from tools.base import (
    NO_FEATURES,
    DescribedArguments,
    Problem,
    Role,
    SessionKind,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    failure,
)
from tools.schema_values import read_by_schema
from tools.toon import ToonError, compact_json

log = logging.getLogger(__name__)


Unknown = Callable[[str, Language], str]
"""Returns the sentence for a call of a tool that does not exist, in a language."""


def _unknown_function(name: str, _: Language) -> str:
    return f"unknown function: {name}"


@final
class ToolBox:
    """The available tools by name. All tool calls are run here.

    `unknown`: says that a tool does not exist; by default in English.
    """

    def __init__(self, tools: Iterable[Tool[Any]], *, unknown: Unknown = _unknown_function) -> None:
        self._unknown = unknown
        self._tools: dict[str, Tool[Any]] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are named {tool.name!r}")
            self._tools[tool.name] = tool

    @property
    def names(self) -> frozenset[str]:
        """The names of all tools, for every role and session."""
        return frozenset(self._tools)

    def offered(
        self, role: Role, session_kind: SessionKind = "chat", features: frozenset[str] = NO_FEATURES
    ) -> list[Tool[Any]]:
        """Returns the tools offered to a role in a kind of session, in their original order.

        A run that may only report has the role of a viewer, which has no writing tools.
        """
        return [tool for tool in self._tools.values() if tool.is_for(role, session_kind, features)]

    def schemas(self, role: Role) -> list[dict[str, Any]]:
        """Returns the tools of `offered` as OpenAI function definitions."""
        return [tool.schema() for tool in self.offered(role)]

    def get(self, name: str) -> Tool[Any] | None:
        return self._tools.get(name)

    def accepts(self, name: str, raw_arguments: str) -> bool:
        """Returns whether the arguments of a call match the schema of its tool.

        `run` may still reject them, for example if a node does not exist.
        """
        tool = self._tools.get(name)
        try:
            return tool is not None and not isinstance(
                _checked(tool, parse_arguments(raw_arguments).values), ToolResult
            )
        except (MalformedArguments, ValidationError):
            return False

    async def run(
        self, name: str, raw_arguments: str | dict[str, Any], context: ToolContext
    ) -> ToolResult:
        """Runs a call as the model wrote it. Errors of the model and of the data source are
        returned as results.
        """
        tool = self._tools.get(name)
        if tool is None or not tool.is_for(context.role, context.session_kind, context.features):
            return self._refused(name, tool, context)
        try:
            parsed = parse_arguments(raw_arguments)
            arguments = _checked(tool, parsed.values)
        except MalformedArguments as exc:
            log.warning("malformed_json", extra=_malformed(tool, raw_arguments, corrected=False))
            return failure("malformed_arguments", Problem(what=str(exc)), example=tool.example)
        except ValidationError as exc:
            return _invalid(tool, exc)
        if isinstance(arguments, ToolResult):
            return arguments
        try:
            result = await tool.run(arguments, context)
        except errors.SourceError as exc:
            log.warning("tool_failed", extra={"tool": name, "error": type(exc).__name__})
            return _source_failed(exc)
        except ToonError as exc:
            return failure(
                "unavailable", Problem(what=f"the result cannot be written: {exc.reason}")
            )
        if not parsed.repaired:
            return result
        log.warning("malformed_json", extra=_malformed(tool, raw_arguments, corrected=True))
        note = f"(arguments were not valid JSON; read as {compact_json(parsed.values)[:300]})"
        return replace(result, text=f"{note}\n{result.text}")

    def _refused(self, name: str, tool: Tool[Any] | None, context: ToolContext) -> ToolResult:
        role = context.role
        names = [
            offered.name for offered in self.offered(role, context.session_kind, context.features)
        ]
        allowed = ", ".join(names)
        if tool is not None:
            what = (
                f"{name} is not offered here"
                if role in tool.roles
                else f"a {role} may not call {name}"
            )
            return failure("not_permitted", Problem(what=what, allowed=allowed))
        what = self._unknown(name[:100], context.language)
        near = difflib.get_close_matches(name[:100].casefold(), names, n=3, cutoff=0.5)
        answer = {"error": what, **({"did_you_mean": near} if near else {}), "allowed": names}
        error = ToolError(code="unknown_tool", problems=(Problem(what=what, allowed=allowed),))
        return ToolResult(text=compact_json(answer), error=error)


def _checked(tool: Tool[Any], values: dict[str, Any]) -> Any:
    """Returns the validated arguments of a tool.

    Violations of a document's schema are returned as a ToolResult; others raise ValidationError.
    """
    if tool.parameters is None:
        return tool.arguments.model_validate(values)
    values = read_by_schema(tool.parameters, values)
    if problems := [
        Problem(where=at, what=what) for at, what in wrong_arguments(tool.parameters, values)
    ]:
        return failure("invalid_arguments", *problems, example=tool.example)
    return DescribedArguments(values=values)


def _malformed(tool: Tool[Any], raw: str | dict[str, Any], *, corrected: bool) -> dict[str, Any]:
    """Returns the log fields for malformed arguments.

    The raw text is not logged for tools of documents: it may repeat what a caller said.
    """
    shown = str(raw)[:500] if tool.parameters is None else ""
    return {"tool": tool.name, "raw": shown, "corrected": corrected}


def _invalid(tool: Tool[Any], exc: ValidationError) -> ToolResult:
    fields = [info.alias or name for name, info in tool.arguments.model_fields.items()]
    problems: list[Problem] = []
    for error in exc.errors(include_url=False)[:5]:
        where = ".".join(str(part) for part in error["loc"])[:200]
        what = error["msg"]
        allowed = None
        if error["type"] == "extra_forbidden":
            name = str(error["loc"][-1])[:100]
            near = difflib.get_close_matches(name, fields, n=1, cutoff=0.6)
            what = "unknown argument" + (f"; did you mean {near[0]}?" if near else "")
            allowed = ", ".join(fields) or "no arguments"
        elif error["type"] != "missing":
            what += f" (got {compact_json(error['input'])[:60]})"
        problems.append(Problem(what=what, where=where, allowed=allowed))
    return failure("invalid_arguments", *problems, example=tool.example)


def _source_failed(exc: errors.SourceError) -> ToolResult:
    """Returns the result for an error of the data source, without its paths or statements."""
    match exc:
        case errors.GraphNotFound():
            return failure("not_found", Problem(what="this graph no longer exists"))
        case errors.BadDocument():
            what = f"the stored document {exc.key!r} is malformed in field {exc.field!r}"
        case errors.SourceTimeout() | errors.DatabaseBusy():
            what = "the database did not answer in time; try once more, then tell the person"
        case _:
            what = "the database cannot answer now; tell the person"
    return failure("unavailable", Problem(what=what))
