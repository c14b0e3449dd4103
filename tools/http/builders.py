"""Body builders: registered Python functions that build the body of a request."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Annotated, Any, cast

import orjson
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from tools.http.problems import BadText
from tools.http.scope import Scope

__all__ = [
    "About",
    "BodyBuilder",
    "BuilderFailed",
    "BuilderOptions",
    "OptionPath",
    "load_builders",
    "parse_builder",
    "register_builder",
    "value_at",
]

log = logging.getLogger(__name__)

ENTRY_POINTS = "nodius.body_builders"
SLOW_MS = 50

OptionPath = Annotated[
    str, StringConstraints(pattern=r"^(ctx|session|args)(\.[\w-]+){1,20}$", max_length=200)
]
"""A path over the values of a conversation."""


class BuilderOptions(BaseModel):
    """Base of a builder's options."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Facts about the conversation for a builder. `now_ms`: milliseconds since 1970."""

    agent: Mapping[str, Any]
    caller_phone: str | None
    call_id: str
    now_ms: int


class BuilderFailed(Exception):
    """Raised when a builder cannot build a body from the values; the text is for the model."""


def value_at(path: str, args: Mapping[str, Any], ctx: Mapping[str, Any], session: Any) -> Any:
    """Returns the value at an `OptionPath`, None if there is none."""
    segments = tuple(int(word) if word.isdecimal() else word for word in path.split("."))
    return Scope({"args": args, "ctx": ctx, "session": session}).lookup(segments)


BuildBody = Callable[[Mapping[str, Any], Mapping[str, Any], Any, Any, About], dict[str, Any]]
"""`(args, ctx, session, options, about) -> body`: pure, without I/O, at most 50 ms."""

_registered: dict[str, tuple[BuildBody, type[BaseModel]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyBuilder:
    """A registered builder with its checked options."""

    name: str
    build: BuildBody
    options: BaseModel

    def body(
        self, args: Mapping[str, Any], ctx: Mapping[str, Any], session: Any, about: About
    ) -> dict[str, Any]:
        """Returns the body without nulls. Raises: BuilderFailed."""
        start = time.perf_counter()
        try:
            built = self.build(_copied(args), _copied(ctx), _copied(session), self.options, about)
        except BuilderFailed:
            raise
        except Exception as error:  # the function comes from any installed package
            log.exception("builder_failed", extra={"builder": self.name})
            raise BuilderFailed(f"the builder {self.name} failed") from error
        elapsed_ms = (time.perf_counter() - start) * 1000
        if elapsed_ms > SLOW_MS:
            log.warning("builder_slow", extra={"builder": self.name, "ms": round(elapsed_ms)})
        return cast(dict[str, Any], _without_nulls(built))


def register_builder(name: str, function: BuildBody, options_model: type[BaseModel]) -> None:
    """Registers a builder by `name`, for all documents of this process. Idempotent.

    Raises: ValueError if another builder has the name.
    """
    builder = (function, options_model)
    if _registered.setdefault(name, builder) != builder:
        raise ValueError(f"a body builder {name!r} is registered already")


def load_builders(listed: Sequence[str]) -> None:
    """Registers the `listed` builders of the entry point group `nodius.body_builders`.

    The name of an entry point is the name of its builder; it loads `(function, options_model)`.
    Raises: ValueError if a listed builder is not installed or its name is taken.
    """
    for name in listed:
        installed = list(entry_points(group=ENTRY_POINTS, name=name))
        if not installed:
            raise ValueError(
                f"no installed package brings the body builder {name!r} ({ENTRY_POINTS})"
            )
        function, options_model = installed[0].load()
        register_builder(name, function, options_model)


def builder_names() -> list[str]:
    """Returns the names of all registered builders, sorted."""
    return sorted(_registered)


def parse_builder(value: Any) -> BodyBuilder:
    """Returns the builder named by `body_builder`: `"name"` or `{"name": …, "options": {…}}`.

    Raises: BadText (unknown_builder, wrong_type).
    """
    named = cast(dict[str, Any], value if isinstance(value, dict) else {"name": value})
    name = named.get("name")
    if not isinstance(name, str) or name not in _registered:
        raise BadText(
            "unknown_builder", f"no body builder {name!r}", allowed=", ".join(builder_names())
        )
    build, model = _registered[name]
    try:
        options = model.model_validate(named.get("options") or {})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(("options", *map(str, first["loc"])))
        raise BadText(
            "wrong_type", f"{place}: {first['msg']}", allowed=", ".join(model.model_fields)
        ) from error
    return BodyBuilder(name=name, build=build, options=options)


def _copied(value: Any) -> Any:
    try:
        return orjson.loads(orjson.dumps(value))
    except TypeError:  # an integer over 64 bits, or a string with a lone surrogate
        return copy.deepcopy(value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast(dict[str, Any], value).items()
        return {key: _without_nulls(item) for key, item in members if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in cast(list[Any], value) if item is not None]
    return value
