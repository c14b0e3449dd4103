"""Body builders: Python functions, known by name, that make the body of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a builder is told about the conversation. `now_ms`: milliseconds since 1970."""

    agent: Mapping[str, Any]
    caller_phone: str | None
    call_id: str
    now_ms: int


BuildBody = Callable[[Mapping[str, Any], Mapping[str, Any], Any, Any, About], dict[str, Any]]
"""`(args, ctx, session, options, about) -> body`: pure, without I/O, at most 50 ms."""


class BuilderFailed(Exception):
    """A builder cannot make a body of these values; the text is for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyBuilder:
    """A registered builder with its checked options."""

    name: str
    build: BuildBody
    options: BaseModel

    def body(
        self, args: Mapping[str, Any], ctx: Mapping[str, Any], session: Any, about: About
    ) -> dict[str, Any]:
        """Return the body without nulls. Raises: BuilderFailed."""
        raise NotImplementedError


def register_builder(name: str, function: BuildBody, options_model: type[BaseModel]) -> None:
    """Make a builder known by `name`, for all documents of this process."""
    raise NotImplementedError


def load_builders(listed: list[str]) -> None:
    """Register the entry points of the group `nodius.body_builders` whose names are `listed`."""
    raise NotImplementedError


def builder_names() -> list[str]:
    """Return the names of all registered builders, sorted."""
    raise NotImplementedError


def parse_builder(value: Any) -> BodyBuilder:
    """Return the builder that `body_builder` names: `"name"` or `{"name": …, "options": {…}}`.

    Raises: BadText (unknown_builder, unknown_field, wrong_type, missing_field).
    """
    raise NotImplementedError
