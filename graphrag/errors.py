"""The one table from an exception to what it means: code, HTTP status, exit code, whether to retry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from datasources import errors as data
from graphrag.agent.thread_store import (
    EmptyMessage,
    NothingToResume,
    ThreadBusy,
    ThreadNotFound,
    ThreadOfOtherGraph,
    ThreadVersion,
)
from graphrag.agent.turn_lease import TurnUnwanted
from graphrag.agent.window import WindowTooSmall
from graphrag.approvals import errors as approvals
from graphrag.client import errors as client
from graphrag.config import SettingsError
from graphrag.embedding import base
from graphrag.evaluation.formats import UnreadableKnowledge
from graphrag.evaluation.workflows import QueryFileError
from graphrag.i18n import Language, message
from graphrag.i18n.error_texts import ERRORS
from graphrag.i18n.localized import LocalizedError
from graphrag.importers import UnreadableWorkflow
from graphrag.live import errors as live
from graphrag.llm import errors as models
from graphrag.llm.usage_meter import UsageLimitReached
from graphrag.prompts.library import PromptError
from graphrag.workers import WorkersBusy
from tools.arguments import MalformedArguments
from tools.proposals import MalformedProposal
from tools.toon import ToonError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOTHING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a kind of error is to a caller. `retryable`: the same call may work later."""

    code: str
    http_status: int
    exit_code: int = EXIT_FAILED
    retryable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An error as a person or a client is told of it: a whole sentence of their language.

    `details` is what stands in no sentence: a provider's own words, or an English reason in French.
    """

    code: str
    http_status: int
    exit_code: int
    retryable: bool
    message: str
    details: str = ""


MEANINGS: dict[type[Exception], Meaning] = {
    data.GraphNotFound: Meaning(code="not_found", http_status=404, exit_code=EXIT_NOTHING),
    data.GraphExists: Meaning(code="conflict", http_status=409),
    data.BadDocument: Meaning(code="bad_document", http_status=500),
    data.InvalidMutation: Meaning(code="invalid", http_status=422),
    data.RevisionConflict: Meaning(code="conflict", http_status=409, retryable=True),
    data.RecordConflict: Meaning(code="conflict", http_status=409, retryable=True),
    data.UnknownIndexField: Meaning(code="internal", http_status=500),
    data.InvalidDatabaseUrl: Meaning(code="usage", http_status=400, exit_code=EXIT_USAGE),
    data.DatabaseBusy: Meaning(code="busy", http_status=503, retryable=True),
    data.DatabaseDamaged: Meaning(code="damaged", http_status=500),
    data.DatabaseVersion: Meaning(code="damaged", http_status=500),
    data.SourceTimeout: Meaning(code="timeout", http_status=504, retryable=True),
    data.SourceBusy: Meaning(code="busy", http_status=503, retryable=True),
    data.SourceUnavailable: Meaning(code="unavailable", http_status=503, retryable=True),
    data.InstructionError: Meaning(code="invalid", http_status=422),
    base.EmbeddingUnauthorized: Meaning(code="auth_error", http_status=502),
    base.EmbeddingUnreachable: Meaning(code="network", http_status=502, retryable=True),
    base.EmbeddingMalformed: Meaning(code="server_error", http_status=502),
    base.EmbeddingRefused: Meaning(code="server_error", http_status=502, retryable=True),
    models.ModelUnauthorized: Meaning(code="auth_error", http_status=502),
    models.ModelNoCredit: Meaning(code="no_credit", http_status=502),
    models.ModelRateLimited: Meaning(code="rate_limit", http_status=503, retryable=True),
    models.ModelFailed: Meaning(code="server_error", http_status=502, retryable=True),
    models.ModelRequestRefused: Meaning(code="request_refused", http_status=502),
    models.ModelContextTooLong: Meaning(code="context_length", http_status=413),
    models.ModelContentFiltered: Meaning(code="content_filter", http_status=422),
    models.ModelTimedOut: Meaning(code="timeout", http_status=504, retryable=True),
    models.ModelUnreachable: Meaning(code="network", http_status=502, retryable=True),
    models.ModelStreamBroken: Meaning(code="network", http_status=502, retryable=True),
    models.ModelAnswerMalformed: Meaning(code="server_error", http_status=502, retryable=True),
    models.ModelEmptyReply: Meaning(code="server_error", http_status=502, retryable=True),
    approvals.ApprovalNotFound: Meaning(code="not_found", http_status=404, exit_code=EXIT_NOTHING),
    approvals.NotAllowed: Meaning(code="forbidden", http_status=403),
    approvals.ProposalRefused: Meaning(code="invalid", http_status=422),
    approvals.AlreadyProposed: Meaning(code="conflict", http_status=409),
    approvals.AlreadyDecided: Meaning(code="conflict", http_status=409),
    approvals.ProposalExpired: Meaning(code="stale", http_status=410),
    approvals.ProposalWaits: Meaning(code="conflict", http_status=409, retryable=True),
    approvals.ApprovalBusy: Meaning(code="busy", http_status=503, retryable=True),
    approvals.NothingToUndo: Meaning(code="not_found", http_status=404, exit_code=EXIT_NOTHING),
    approvals.UndoRefused: Meaning(code="stale", http_status=409),
    ThreadNotFound: Meaning(code="not_found", http_status=404, exit_code=EXIT_NOTHING),
    EmptyMessage: Meaning(code="invalid", http_status=422),
    ThreadOfOtherGraph: Meaning(code="invalid", http_status=409),
    ThreadBusy: Meaning(code="busy", http_status=409, retryable=True),
    ThreadVersion: Meaning(code="damaged", http_status=500),
    NothingToResume: Meaning(code="conflict", http_status=409),
    TurnUnwanted: Meaning(code="conflict", http_status=409),  # caught where the turn is watched
    live.EditRefused: Meaning(code="invalid", http_status=422),
    live.EditNotFound: Meaning(code="not_found", http_status=404, exit_code=EXIT_NOTHING),
    live.EditNotKept: Meaning(code="busy", http_status=503, retryable=True),
    live.LiveElsewhere: Meaning(code="busy", http_status=503, retryable=True),
    live.LiveGraphClosed: Meaning(code="conflict", http_status=409, retryable=True),
    live.LiveError: Meaning(code="unavailable", http_status=503, retryable=True),
    WindowTooSmall: Meaning(code="context_length", http_status=413),
    WorkersBusy: Meaning(code="busy", http_status=503, retryable=True),
    UsageLimitReached: Meaning(code="usage_limit", http_status=429),
    client.ServiceUnreachable: Meaning(code="network", http_status=502, retryable=True),
    client.ServiceError: Meaning(code="server_error", http_status=502),
    SettingsError: Meaning(code="usage", http_status=500, exit_code=EXIT_USAGE),
    QueryFileError: Meaning(code="unreadable", http_status=400, exit_code=EXIT_USAGE),
    UnreadableWorkflow: Meaning(code="unreadable", http_status=422),
    UnreadableKnowledge: Meaning(code="unreadable", http_status=422, exit_code=EXIT_USAGE),
    PromptError: Meaning(code="internal", http_status=500),
    MalformedArguments: Meaning(code="invalid", http_status=422),
    MalformedProposal: Meaning(code="invalid", http_status=422),
    ToonError: Meaning(code="internal", http_status=500),
}


def describe(exc: Exception, language: Language) -> Described | None:
    """Return what to say of an expected error, or None for one that nobody foresaw."""
    meaning = _meaning_of(exc)
    if meaning is None:
        return None
    return Described(
        code=meaning.code,
        http_status=meaning.http_status,
        exit_code=meaning.exit_code,
        retryable=meaning.retryable,
        message=_COLON[language].join((message(meaning.code, language), _sentence(exc, language))),
        details=_details(exc, language),
    )


_COLON: dict[Language, str] = {"en": ": ", "fr": " : "}
_FACT_CHARS = 300
_REASONS = ("{reason}", "{sentence}")


def _sentence(exc: Exception, language: Language) -> str:
    if isinstance(exc, LocalizedError | UsageLimitReached):
        return exc.text(language)
    facts = {name: _fact(value) for name, value in vars(exc).items()}
    return " ".join(_template(exc, language).format(sentence=exc, **facts).split())


def _template(exc: Exception, language: Language) -> str:
    return next(ERRORS[kind.__name__][language] for kind in type(exc).__mro__ if kind.__name__ in ERRORS)


def _fact(value: Any) -> Any:
    if isinstance(value, tuple | list):
        parts = [str(part) for part in cast(Sequence[Any], value)]
        return ", ".join(parts[:5]) + (f" (+{len(parts) - 5})" if len(parts) > 5 else "")
    return value[:_FACT_CHARS] if isinstance(value, str) else value


def _details(exc: Exception, language: Language) -> str:
    """Return what an error says beside its sentence."""
    if isinstance(exc, approvals.ProposalRefused):
        return "; ".join(problem.what for problem in exc.problems) if language == "fr" else ""
    if isinstance(exc, LocalizedError | UsageLimitReached):
        return ""
    reason = getattr(exc, "reason", None)
    is_told = any(part in _template(exc, language) for part in _REASONS)
    return reason if isinstance(reason, str) and not is_told else ""


def _meaning_of(exc: Exception) -> Meaning | None:
    if isinstance(exc, base.EmbeddingRefused):  # only the service knows whether waiting helps
        code = "rate_limit" if exc.status == 429 else "server_error"
        return replace(MEANINGS[base.EmbeddingRefused], code=code, retryable=exc.retryable)
    meaning = next((MEANINGS[kind] for kind in type(exc).__mro__ if kind in MEANINGS), None)
    if meaning is not None and isinstance(exc, models.ModelError | client.ServiceError):
        return replace(meaning, retryable=exc.retryable)
    return meaning
