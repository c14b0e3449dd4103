"""What the bodies of requests and answers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, StringConstraints
from pydantic.alias_generators import to_camel

from graphrag.answer_body import AnswerBody

Id = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]

MAX_MESSAGE = 100_000  # characters of a message of a person


class RequestBody(BaseModel):
    """What a client sends: an unknown key or another type is refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, allow_inf_nan=False
    )


class Success(AnswerBody):
    success: bool = True


def text_of_parts(content: Any) -> str:
    """Return the text of a message: a text, or parts of which each is one. Raises:
    ValueError for others.
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
