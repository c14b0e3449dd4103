"""An executable HTTP tool, and the rules across several fields of a tool or request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel

from tools.base import Effect
from tools.http.addresses import host_matches
from tools.http.builders import BodyBuilder, parse_builder
from tools.http.expressions import Expression
from tools.http.json_paths import Path
from tools.http.model import BuilderChoice, HttpTool, PreStep, RequestLike
from tools.http.problems import BadText, DocumentProblem
from tools.http.request_url import RequestUrl
from tools.http.scope import READ_BESIDE, Names, Read, unreadable, with_steps
from tools.http.value_templates import ValueTemplate
from tools.http.value_tree import ValueTree

MAX_TOOL_S = 60.0

_Problems = Iterator[DocumentProblem]
_NONE: Names = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTool:
    """An HTTP tool. `request_timeout_s` applies to requests without a timeout of their own."""

    name: str
    model: HttpTool
    builder: BodyBuilder | None
    request_timeout_s: float

    @property
    def requests(self) -> list[RequestLike]:
        """The requests of the steps, followed by the tool's own request."""
        return [*(step for step in self.model.pre_steps if step.url is not None), self.model]

    @property
    def effect(self) -> Effect:
        return "read" if all(request.method == "GET" for request in self.requests) else "acts"

    @property
    def timeout_s(self) -> float:
        """The sum of the timeouts of all requests, at most MAX_TOOL_S."""
        timeouts = (request.timeout_s or self.request_timeout_s for request in self.requests)
        return min(MAX_TOOL_S, sum(timeouts))


def compile_tool(name: str, model: HttpTool, *, timeout_s: float = 10) -> CompiledTool:
    """Returns the executable form of a valid tool. Raises: BadText for an invalid builder."""
    return CompiledTool(
        name=name, model=model, builder=_builder(model), request_timeout_s=timeout_s
    )


def _builder(tool: HttpTool) -> BodyBuilder | None:
    """Returns the tool's body builder, if any. Raises: BadText (unknown_builder, wrong_type)."""
    chosen = tool.body_builder
    if chosen is None:
        return None
    return parse_builder(chosen.model_dump() if isinstance(chosen, BuilderChoice) else chosen)


def reads_in(
    part: Any, where: str, names: Names = _NONE
) -> Iterator[tuple[str, Sequence[Read], Names]]:
    """Yields for each template in a part its path in the document, the values it reads, and the
    names that may be read there.
    """
    if isinstance(part, ValueTemplate | Expression | Path | RequestUrl):
        yield where, part.reads, names
    elif isinstance(part, ValueTree):
        for place, text in part.texts:
            yield ".".join((where, *map(str, place))), text.reads, names
    elif isinstance(part, BaseModel):
        yield from _reads_of_fields(part, where, names)
    elif isinstance(part, dict | list):
        for name, inner in _members(cast(Any, part)):
            yield from reads_in(inner, f"{where}.{name}", names)


def _reads_of_fields(
    part: BaseModel, where: str, names: Names
) -> Iterator[tuple[str, Sequence[Read], Names]]:
    after = names
    if isinstance(part, HttpTool):
        names = after = with_steps(names, ())
        for index, step in enumerate(part.pre_steps):
            yield from _reads_of_fields(step, f"{where}.pre_steps.{index}", after)
            names = after = with_steps(after, step.extract)
    elif isinstance(part, PreStep):
        after = with_steps(names, part.extract)
    for name, field in type(part).model_fields.items():
        if name != "pre_steps":
            readable = after if name in ("fail_if", "fail_return") else names
            place = f"{where}.{field.alias or name}"
            yield from reads_in(getattr(part, name), place, readable | READ_BESIDE.get(name, _NONE))


def _members(part: dict[str, Any] | list[Any]) -> Iterable[tuple[str | int, Any]]:
    return part.items() if isinstance(part, dict) else enumerate(part)


def misread(part: Any, where: str, names: Names) -> _Problems:
    """Yields a problem for each template that reads a value that is not in `names`."""
    for place, reads, readable in reads_in(part, where, names):
        bad = unreadable(reads, readable)
        if bad is not None:
            yield bad.at(place)


def broken_request(
    request: RequestLike, where: str, base_url: str | None, secrets: Mapping[str, Sequence[str]]
) -> _Problems:
    """Yields the problems of a request, except for the values it reads.

    `secrets`: the declared secrets with the hosts that they may be sent to.
    """
    assert request.url is not None
    if request.body is not None and request.method == "GET":
        yield DocumentProblem(
            where=f"{where}.body", code="body_with_get", what="a GET request has no body"
        )
    try:
        origin, _ = request.url.beginning(base_url)
    except BadText as bad:
        yield bad.at(f"{where}.url")
        return
    for name, template in request.headers.items():
        for secret in secrets_of(template):
            at = f"{where}.headers.{name}"
            hosts = secrets.get(secret)
            if hosts is None:
                what = f"the secret {secret} is not declared"
                allowed = ", ".join(secrets) or "declare it in secrets"
                yield DocumentProblem(
                    where=at, code="undeclared_secret", what=what, allowed=allowed
                )
            elif not any(host_matches(host, origin.host, origin.port) for host in hosts):
                what = f"the secret {secret} may not be sent to {origin.host}"
                allowed = ", ".join(hosts)
                yield DocumentProblem(
                    where=at, code="secret_not_allowed_here", what=what, allowed=allowed
                )


def secrets_of(header: ValueTemplate) -> list[str]:
    """Returns the names of the secrets in a header."""
    return [str(path[1]) for path, _ in header.reads if path[0] == "secret" and len(path) > 1]


def broken_tool(tool: HttpTool, where: str) -> _Problems:
    """Yields the violations of rules across the fields of a tool, except for its requests."""
    at = f"{where}.body_builder"
    what = "a GET request has no body"
    if tool.body_builder is not None and tool.body is not None:
        what = "a tool has body or body_builder, not both"
        yield DocumentProblem(where=at, code="both_body_and_builder", what=what)
    elif tool.body_builder is not None and tool.method == "GET":
        yield DocumentProblem(where=at, code="body_with_get", what=what)
    else:
        try:
            _builder(tool)
        except BadText as bad:
            yield bad.at(at)
    for index, step in enumerate(tool.pre_steps):
        yield from _broken_step(step, f"{where}.pre_steps.{index}")


def _broken_step(step: PreStep, where: str) -> _Problems:
    if step.condition is not None and step.fail_before is not None:
        what = "condition and fail_before mean the same: use only one of them"
        yield DocumentProblem(where=f"{where}.fail_before", code="duplicate_name", what=what)
    if (step.stops_before or step.fail_if) is not None and step.fail_return is None:
        what = "a step that can stop the tool needs a result for the model"
        yield DocumentProblem(where=f"{where}.fail_return", code="missing_field", what=what)
    if step.url is None and (
        step.extract or step.params.source or step.headers or step.body is not None
    ):
        what = "a step that sends a request or extracts values needs an address"
        yield DocumentProblem(where=f"{where}.url", code="missing_field", what=what)
