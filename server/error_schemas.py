"""The answers of failed requests, described for OpenAPI."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class _ErrorBody(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class ErrorFacts(_ErrorBody):
    """`warnings`: of a document that is refused for the reasons in `details`."""

    code: str
    message: str
    retryable: bool
    request_id: str = ""
    details: Any = None
    warnings: list[Any] | None = None


class ErrorAnswer(_ErrorBody):
    error: ErrorFacts


_MEANINGS: dict[int, str] = {
    401: "No token, or one that is not good",
    403: "The caller's role does not allow it",
    404: "There is no such thing for this caller",
    405: "Another method",
    408: "The request did not come on",
    409: "It changed, is busy or was decided already",
    410: "It expired",
    413: "Too large",
    422: "The request is not valid; `details` say where",
    429: "Too many requests, or a limit of usage",
    500: "A fault of this program, or of what is stored",
    502: "The model's provider failed",
    503: "Busy or not available; try again",
    504: "No answer in time; try again",
}


_JSON = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}}


def _responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    # Not as `model`: FastAPI would build it for each status of each endpoint, 60 ms in all.
    return {status: {"description": _MEANINGS[status], "content": _JSON} for status in statuses}


# Of any endpoint.
ERRORS = _responses(403, 404, 405, 408, 409, 410, 413, 422, 500, 503, 504) | {
    401: {"model": ErrorAnswer, "description": _MEANINGS[401]}
}

# Of endpoints whose own answers are text.
TEXT_ERRORS = _responses(401, 403, 503)

# Of endpoints that the telephone service calls.
VOICE_ERRORS = _responses(403, 408, 413, 422, 503)

# Also of endpoints that ask a model.
MODEL_ERRORS = _responses(429, 502)
