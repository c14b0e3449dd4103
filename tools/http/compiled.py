"""Parses an HTTP tool and its requests once: templates, conditions and paths; finds every mistake in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from tools.base import Effect
from tools.http.addresses import Origin, host_matches, origin_of
from tools.http.builders import BodyBuilder, parse_builder
from tools.http.expressions import Expression, parse_expression
from tools.http.fetch import KEPT_IN_URL
from tools.http.json_paths import Path, parse_path, parse_return
from tools.http.model import HttpTool, Method, PreStep, Returned
from tools.http.problems import BadText, DocumentProblem, noted
from tools.http.scope import TOOL, Names, with_error, with_response, with_secrets, with_steps
from tools.http.value_templates import ValueTemplate, parse_template
from tools.http.value_tree import ValueTree, parse_tree

RESERVED_CTX = frozenset(
    ("caller_phone", "agent_id", "call_start", "had_conversation", "should_hangup", "transcript")
)
"""Values of ctx that the service sets itself."""
MAX_TOOL_S = 60.0

_BASE_URL = re.compile(r"\{\{\s*base_url\s*\}\}(?=[/?]|\Z)")
_LITERAL = re.compile(r"https?://[^/?#{}\s\\]+(?=[/?]|\Z)", re.IGNORECASE)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_OURS = frozenset(("host", "content-length", "transfer-encoding", "connection"))


class RequestLike(Protocol):
    """The fields of a document that make a request."""

    @property
    def method(self) -> Method: ...
    @property
    def url(self) -> str | None: ...
    @property
    def params(self) -> Mapping[str, Any]: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> Mapping[str, Any] | None: ...
    @property
    def timeout_s(self) -> float | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledHeader:
    """One header. `secrets`: names of the secrets in it."""

    name: str
    template: ValueTemplate
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRequest:
    """One request, parsed. `path_text` is the path as the document writes it, for logs; `prefix` is the path
    of the base URL. `secret_hosts`: where each secret of the headers may go.
    """

    where: str
    method: Method
    origin: Origin
    prefix: str
    path: ValueTemplate
    path_text: str
    params: ValueTree
    headers: tuple[CompiledHeader, ...]
    body: ValueTree | None
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledStep:
    """One step before the request: a condition, a request, values taken from its answer, a condition."""

    fail_before: Expression | None
    request: CompiledRequest | None
    extract: tuple[tuple[str, Path], ...]
    fail_if: Expression | None
    fail_return: ValueTree


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledTool:
    """An HTTP tool, parsed. `timeout_s`: all of its steps together."""

    where: str
    model: HttpTool
    request: CompiledRequest
    steps: tuple[CompiledStep, ...]
    builder: BodyBuilder | None
    success_if: Expression | None
    store: tuple[tuple[str, Path], ...]
    flags: tuple[str, ...]
    on_success: ValueTree | None
    on_error: ValueTree | None
    effect: Effect
    timeout_s: float


def compile_request(
    model: RequestLike,
    where: str,
    names: Names,
    problems: list[DocumentProblem],
    *,
    base_url: str | None = None,
    secrets: Mapping[str, Sequence[str]] | None = None,
    timeout_s: float = 10,
) -> CompiledRequest | None:
    """Return a request, parsed; None where it has mistakes, which are added to `problems`.

    `names`: what its templates may read. `secrets`: hosts of each declared secret. `timeout_s` holds where
    the request names none.
    """
    before = len(problems)
    address = noted(problems, f"{where}.url", lambda: _address(model.url or "", base_url))
    origin, prefix, rest = address or (_NOWHERE, "", "")
    begin = len(model.url or "") - len(rest)
    path = noted(problems, f"{where}.url", lambda: _path_of(rest, begin, names))
    if model.body is not None and model.method == "GET":
        what = "a GET request has no body"
        problems.append(DocumentProblem(where=f"{where}.body", code="body_with_get", what=what))
    params = parse_tree(dict(model.params), names, f"{where}.params", problems)
    body = None if model.body is None else parse_tree(dict(model.body), names, f"{where}.body", problems)
    allowed: Mapping[str, Sequence[str]] = {} if secrets is None else secrets
    headers = [
        noted(problems, f"{where}.headers.{name}", _header(name, text, names, origin, allowed))
        for name, text in model.headers.items()
    ]
    if path is None or len(problems) > before:
        return None
    return CompiledRequest(
        where=where,
        method=model.method,
        origin=origin,
        prefix=prefix,
        path=path,
        path_text=rest.partition("?")[0][:200],
        params=params,
        headers=tuple(header for header in headers if header is not None),
        body=body,
        timeout_s=timeout_s if model.timeout_s is None else model.timeout_s,
    )


RequestOf = Callable[[RequestLike, str, Names], CompiledRequest | None]
"""Compiles the request of a tool or of a step, which stands there and knows these names."""


def compile_tool(
    tool: HttpTool,
    where: str,
    base_url: str | None,
    problems: list[DocumentProblem],
    *,
    secrets: Mapping[str, Sequence[str]] | None = None,
    timeout_s: float = 10,
) -> CompiledTool | None:
    """Return a tool, parsed; None where it has mistakes, which are added to `problems`."""
    before = len(problems)

    def request_of(model: RequestLike, at: str, names: Names) -> CompiledRequest | None:
        return compile_request(
            model, at, names, problems, base_url=base_url, secrets=secrets, timeout_s=timeout_s
        )

    steps, names = _steps(tool.pre_steps, f"{where}.pre_steps", problems, request_of)
    request = request_of(tool, where, names)
    builder = noted(problems, f"{where}.body_builder", lambda: _builder(tool))
    problems += [
        _reserved(f"{where}.on_success_flags.{index}", name)
        for index, name in enumerate(tool.on_success_flags)
        if name in RESERVED_CTX
    ]
    success_if = _condition(tool.success_if, f"{where}.success_if", with_response(names), problems)
    store = compile_store(tool.store_in_ctx, f"{where}.store_in_ctx", names, problems)
    on_success = _returned(tool.on_success, f"{where}.on_success.return", names, problems)
    on_error = _returned(tool.on_error, f"{where}.on_error.return", with_error(names), problems)
    if request is None or len(problems) > before:
        return None
    requests = [step.request for step in steps if step.request is not None] + [request]
    return CompiledTool(
        where=where,
        model=tool,
        request=request,
        steps=tuple(steps),
        builder=builder,
        success_if=success_if,
        store=store,
        flags=tuple(tool.on_success_flags),
        on_success=on_success,
        on_error=on_error,
        effect="read" if all(sent.method == "GET" for sent in requests) else "acts",
        timeout_s=min(MAX_TOOL_S, sum(sent.timeout_s for sent in requests)),
    )


def compile_store(
    store: Mapping[str, str], where: str, names: Names, problems: list[DocumentProblem]
) -> tuple[tuple[str, Path], ...]:
    """Return the paths of a `store_in_ctx`, parsed."""
    problems.extend(_reserved(f"{where}.{name}", name) for name in store if name in RESERVED_CTX)
    return _paths(store, where, names, problems)


def _reserved(where: str, name: str) -> DocumentProblem:
    return DocumentProblem(where=where, code="reserved_name", what=f"{name} is set by the service")


def _address(url: str, base_url: str | None) -> tuple[Origin, str, str]:
    """Return where a request goes, the literal beginning of its path, and the rest as a template."""
    based = _BASE_URL.match(url)
    literal = based or _LITERAL.match(url)
    if literal is None:
        what = "scheme, host and port have to be literal or {{base_url}}"
        raise BadText("host_not_literal", what, allowed="https://HOST/…, {{base_url}}/…", column=1)
    if based and base_url is None:
        raise BadText("missing_base_url", "the document has no base_url", column=1)
    try:
        origin, prefix = _beginning(base_url.rstrip("/") if based and base_url else literal[0])
    except ValueError as exc:
        raise BadText("host_not_literal", str(exc), allowed="https://HOST:PORT") from exc
    return origin, prefix, url[literal.end() :]


@lru_cache(maxsize=64)
def _beginning(address: str) -> tuple[Origin, str]:
    """Return origin and path of an address; nearly all of a document begin with one. Raises: ValueError."""
    return origin_of(address), quote(urlsplit(address).path, safe=KEPT_IN_URL)


def _path_of(rest: str, begin: int, names: Names) -> ValueTemplate:
    """Return the template of an address from its path on; columns count from the beginning of the text."""
    try:
        return parse_template(rest, names)
    except BadText as bad:
        column = None if bad.column is None else bad.column + begin
        raise BadText(bad.code, bad.what, allowed=bad.allowed, column=column) from bad


def _header(
    name: str, text: str, names: Names, origin: Origin, secrets: Mapping[str, Sequence[str]]
) -> Callable[[], CompiledHeader]:
    def parse() -> CompiledHeader:
        if _HEADER.match(name) is None or name.casefold() in _OURS:
            raise BadText(
                "bad_name", f"{name[:60]!r} is no header a document sets", allowed="a header's name"
            )
        template = parse_template(text, with_secrets(names))
        named = tuple(str(path[1]) for path in template.paths if path[0] == "secret" and len(path) > 1)
        for secret in named:
            if secret not in secrets:
                what = f"the secret {secret} is not declared"
                raise BadText(
                    "undeclared_secret", what, allowed=", ".join(secrets) or "declare it in secrets"
                )
            if not any(host_matches(host, origin.host, origin.port) for host in secrets[secret]):
                what = f"the secret {secret} is not for {origin.host}"
                raise BadText("secret_not_allowed_here", what, allowed=", ".join(secrets[secret]))
        return CompiledHeader(name=name, template=template, secrets=named)

    return parse


def _builder(tool: HttpTool) -> BodyBuilder | None:
    if tool.body_builder is None:
        return None
    if tool.body is not None:
        raise BadText("both_body_and_builder", "a tool has body or body_builder, not both")
    if tool.method == "GET":
        raise BadText("body_with_get", "a GET request has no body")
    chosen = tool.body_builder
    return parse_builder(chosen if isinstance(chosen, str) else chosen.model_dump())


def _steps(
    models: Sequence[PreStep], where: str, problems: list[DocumentProblem], request_of: RequestOf
) -> tuple[list[CompiledStep], Names]:
    """Return the steps before a tool's request, and the names that it knows after them."""
    names, steps = with_steps(TOOL, ()), list[CompiledStep]()
    for index, step in enumerate(models):
        steps.append(_step(step, f"{where}.{index}", names, problems, request_of))
        names = with_steps(names, step.extract)
    return steps, names


def _step(
    step: PreStep, where: str, names: Names, problems: list[DocumentProblem], request_of: RequestOf
) -> CompiledStep:
    after = with_steps(names, step.extract)
    if step.condition is not None and step.fail_before is not None:
        what = "condition and fail_before are one: write one of them"
        problems.append(DocumentProblem(where=f"{where}.fail_before", code="duplicate_name", what=what))
    conditions = [step.condition, step.fail_before, step.fail_if]
    if any(text is not None for text in conditions) and not step.has_fail_return:
        what = "a step that can stop the tool says what the model gets then"
        problems.append(DocumentProblem(where=f"{where}.fail_return", code="missing_field", what=what))
    if step.url is None and (step.extract or step.params or step.headers or step.body is not None):
        what = "a step that sends or extracts has an address"
        problems.append(DocumentProblem(where=f"{where}.url", code="missing_field", what=what))
    named = "condition" if step.condition is not None else "fail_before"
    return CompiledStep(
        fail_before=_condition(getattr(step, named), f"{where}.{named}", names, problems),
        request=None if step.url is None else request_of(step, where, names),
        extract=_paths(step.extract, f"{where}.extract", names, problems),
        fail_if=_condition(step.fail_if, f"{where}.fail_if", with_response(after), problems),
        fail_return=parse_tree(step.fail_return, after, f"{where}.fail_return", problems),
    )


def _condition(
    source: str | None, where: str, names: Names, problems: list[DocumentProblem]
) -> Expression | None:
    return None if source is None else noted(problems, where, lambda: parse_expression(source, names))


def _paths(
    paths: Mapping[str, str], where: str, names: Names, problems: list[DocumentProblem]
) -> tuple[tuple[str, Path], ...]:
    found = [(name, noted(problems, f"{where}.{name}", _path(text, names))) for name, text in paths.items()]
    return tuple((name, path) for name, path in found if path is not None)


def _path(text: str, names: Names) -> Callable[[], Path]:
    return lambda: parse_path(text, names)


def _returned(
    returned: Returned | None, where: str, names: Names, problems: list[DocumentProblem]
) -> ValueTree | None:
    if returned is None or not returned.has_value:
        return None
    return parse_return(returned.return_, names, where, problems)


_NOWHERE = Origin(scheme="https", host="", port=443)
