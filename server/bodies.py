"""Base classes and types of request and answer bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

from graphrag.answer_body import AnswerBody

Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]

MAX_MESSAGE = 100_000  # characters of a message of a person


class RequestBody(BaseModel):
    """A request body. Unknown keys and other types are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, allow_inf_nan=False
    )


class Success(AnswerBody):
    success: bool = True


def text_of_parts(content: Any) -> str:
    """Returns the text of a message, which is a text or a list of text parts.

    Raises: ValueError for other content.
    """
    if isinstance(content, str):
        return content
    parts = cast(list[Any], content if isinstance(content, list) else [None])
    texts: list[Any] = [
        cast(Mapping[str, Any], part).get("text") if isinstance(part, Mapping) else None
        for part in parts
    ]
    if not all(isinstance(one, str) for one in texts):
        raise ValueError("only text is read")
    return "\n".join(texts)
