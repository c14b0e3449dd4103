"""The base of what clients are sent, by REST and by the command line with --json: declared
once for both.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class AnswerBody(BaseModel):
    """What a client is sent; it ignores what it does not know, so that answers may grow."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
        from_attributes=True,
    )

    def to_document(self) -> dict[str, Any]:
        """Return it as it is sent, without what is not set."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
