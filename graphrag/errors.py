"""The one table from an exception to its meaning: code, HTTP status, exit code, whether to retry, text.

The table names classes, so that the rooms above and below are in it without being imported. The text of an
exception stands in the catalogue (`graphrag.i18n`): a `LocalizedError` names its own, another one's key is
the name of its class.

From outside: `describe`, `Described`, `CODES`, the exit codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from graphrag.i18n import Language, LocalizedError, catalogue, places, text

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
class Described(Meaning):
    """An error with a whole sentence of the reader's language.

    `details` is what no sentence holds: a provider's own words, or an English reason in French.
    """

    message: str
    details: str = ""


def _code(code: str, http_status: int, **more: Any) -> tuple[str, Meaning]:
    return code, Meaning(code=code, http_status=http_status, **more)


CODES: Mapping[str, Meaning] = dict(
    (
        _code("agent_not_found", 404, exit_code=EXIT_NOTHING),
        _code("agent_state", 409),
        _code("auth_error", 502),
        _code("bad_document", 500),
        _code("busy", 503, retryable=True),
        _code("call_not_found", 404, exit_code=EXIT_NOTHING),
        _code("capacity", 503, retryable=True),
        _code("conflict", 409),
        _code("content_filter", 422),
        _code("context_length", 413),
        _code("damaged", 500),
        _code("forbidden", 403),
        _code("host_not_allowed", 422),
        _code("internal", 500),
        _code("invalid", 422),
        _code("invalid_agent", 422, exit_code=EXIT_USAGE),
        _code("invalid_message", 422),
        _code("method_not_allowed", 405),
        _code("network", 502, retryable=True),
        _code("no_credit", 502),
        _code("not_found", 404, exit_code=EXIT_NOTHING),
        _code("rate_limit", 503, retryable=True),
        _code("request_refused", 502),
        _code("secret_missing", 422),
        _code("server_error", 502, retryable=True),
        _code("signature", 403),
        _code("stale", 409),
        _code("timeout", 504, retryable=True),
        _code("too_large", 413),
        _code("unauthorized", 401),
        _code("unavailable", 503, retryable=True),
        _code("unreadable", 422),
        _code("usage", 400, exit_code=EXIT_USAGE),
        _code("usage_limit", 429),
    )
)
"""What a code means where its exception's row says nothing else. The text under a code is its heading."""


def _as(code: str, **other: Any) -> Meaning:
    return replace(CODES[code], **other)


MEANINGS: Mapping[str, Meaning] = {
    # the graph database
    "GraphNotFound": _as("not_found"),
    "GraphExists": _as("conflict"),
    "BadDocument": _as("bad_document"),
    "InvalidMutation": _as("invalid"),
    "RevisionConflict": _as("conflict", retryable=True),
    "RecordConflict": _as("conflict", retryable=True),
    "UnknownIndexField": _as("internal"),
    "BadUseValue": _as("invalid", exit_code=EXIT_USAGE),
    "InvalidDatabaseUrl": _as("usage"),
    "DatabaseBusy": _as("busy"),
    "DatabaseDamaged": _as("damaged"),
    "DatabaseVersion": _as("damaged"),
    "SourceTimeout": _as("timeout"),
    "SourceBusy": _as("busy"),
    "SourceUnavailable": _as("unavailable"),
    "InstructionError": _as("invalid"),
    # models and embedding services
    "EmbeddingUnauthorized": _as("auth_error"),
    "EmbeddingUnreachable": _as("network"),
    "EmbeddingMalformed": _as("server_error", retryable=False),
    "EmbeddingRefused": _as("server_error"),
    "EmbeddingModelDiffers": _as("usage", http_status=500),
    "ModelUnauthorized": _as("auth_error"),
    "ModelNoCredit": _as("no_credit"),
    "ModelRateLimited": _as("rate_limit"),
    "ModelFailed": _as("server_error"),
    "ModelRequestRefused": _as("request_refused"),
    "ModelContextTooLong": _as("context_length"),
    "ModelContentFiltered": _as("content_filter"),
    "ModelTimedOut": _as("timeout"),
    "ModelUnreachable": _as("network"),
    "ModelStreamBroken": _as("network"),
    "ModelAnswerMalformed": _as("server_error"),
    "ModelEmptyReply": _as("server_error"),
    "UsageLimitReached": _as("usage_limit"),
    # approvals
    "ApprovalNotFound": _as("not_found"),
    "NotAllowed": _as("forbidden"),
    "ProgramRefused": _as("forbidden"),
    "ProgramUnknown": _as("forbidden"),
    "ProgramRulesFull": _as("forbidden"),
    "ProposalRefused": _as("invalid"),
    "AlreadyProposed": _as("conflict"),
    "RejectedBefore": _as("conflict"),
    "AlreadyDecided": _as("conflict"),
    "ProposalExpired": _as("stale", http_status=410),
    "ProposalWaits": _as("conflict", retryable=True),
    "ApprovalBusy": _as("busy"),
    "DiscussionFull": _as("conflict"),
    "TypeNotFound": _as("not_found"),
    "CodemodRefused": _as("invalid", exit_code=EXIT_USAGE),
    "NothingToUndo": _as("not_found"),
    "UndoRefused": _as("stale"),
    # conversations
    "ThreadNotFound": _as("not_found"),
    "EmptyMessage": _as("invalid"),
    "ThreadOfOtherGraph": _as("invalid", http_status=409),
    "ThreadBusy": _as("busy", http_status=409),
    "ThreadVersion": _as("damaged"),
    "NothingToResume": _as("conflict"),
    "NoQuestion": _as("conflict"),
    "AlreadyAnswered": _as("conflict"),
    # sessions and automations
    "AutomationNotFound": _as("not_found"),
    "SessionNotFound": _as("not_found"),
    "AutomationChanged": _as("conflict"),
    "AutomationInvalid": _as("invalid"),
    "AutomationTooLong": _as("too_large"),
    "AutomationForbidden": _as("forbidden"),
    "AutomationsSpent": _as("usage_limit"),
    "AutomationRefused": _as("conflict"),
    "SessionRefused": _as("conflict"),
    "SessionPast": _as("conflict"),
    "TurnUnwanted": _as("conflict"),  # caught where the turn is watched
    "WindowTooSmall": _as("context_length"),
    # declarative agents
    "AgentNotFound": _as("agent_not_found"),
    "AgentToolNotFound": _as("not_found"),
    "AgentTryFailed": _as("invalid"),
    "AgentChanged": _as("conflict"),
    "AgentTooLarge": _as("too_large"),
    "TooManyAgents": _as("usage_limit"),
    "InvalidAgent": _as("invalid_agent"),
    "AgentStateRefused": _as("agent_state"),
    "AgentNotRunning": _as("agent_state"),
    "AgentBlocked": _as("forbidden"),
    "AgentSessionFailed": _as("unavailable"),
    "AgentNotInChat": _as("agent_state"),
    "AgentGraphUnknown": _as("invalid"),
    "CallerForbidden": _as("forbidden"),
    "CallerTooLate": _as("invalid"),
    "ThreadOfOtherAgent": _as("conflict"),
    "ThreadWithoutAgent": _as("conflict"),
    "ThreadEnded": _as("conflict"),
    "DeliveryNotFound": _as("not_found"),
    "DeliveryRefused": _as("conflict"),
    "AgentListRefused": _as("unreadable"),
    # telephone calls
    "CallNotFound": _as("call_not_found"),
    "CallForbidden": _as("forbidden"),
    "CallsFull": _as("capacity"),
    "CallEnded": _as("conflict"),
    "CallOpen": _as("conflict"),
    "StreamRefused": _as("unauthorized"),
    "AgentInChatOnly": _as("agent_state"),
    "CallBlocked": _as("forbidden"),
    # blocks of messages
    "BlockRefused": _as("invalid"),
    "TooManyBlocks": _as("too_large"),
    # live editing
    "EditRefused": _as("invalid"),
    "EditNotFound": _as("not_found"),
    "TooMuchToArrange": _as("invalid"),
    "EditNotKept": _as("busy"),
    "LiveElsewhere": _as("busy"),
    "LiveGraphClosed": _as("conflict", retryable=True),
    "EditingStopped": _as("unavailable"),
    # files, settings and what a model wrote
    "WorkersBusy": _as("busy"),
    "ServiceUnreachable": _as("network"),
    "ServiceError": _as("server_error", retryable=False),
    "SettingsError": _as("usage", http_status=500),
    "QueryFileError": _as("unreadable", http_status=400, exit_code=EXIT_USAGE),
    "UnreadableWorkflow": _as("unreadable"),
    "NotExportable": _as("invalid"),
    "UnreadableKnowledge": _as("unreadable", exit_code=EXIT_USAGE),
    "PeriodError": _as("invalid"),
    "ScheduleError": _as("invalid"),
    "PromptError": _as("internal"),
    "WrongResponse": _as("invalid"),
    "GraphTooLarge": _as("too_large"),
    "MalformedArguments": _as("invalid"),
    "MalformedProposal": _as("invalid"),
    "ToonError": _as("internal"),
    # the web service
    "AuthError": _as("unauthorized"),
    "KeysUnavailable": _as("unavailable"),
    "IdentityProviderDown": _as("unavailable"),
    "ForeignPage": _as("forbidden"),
    "SignatureRefused": _as("signature"),
    "RoleNeeded": _as("forbidden"),
    "ModelNotFound": _as("not_found"),
    "WebhookNotFound": _as("not_found"),
    "WebhookBusy": _as("conflict", retryable=True),
    "KeyNotFound": _as("not_found"),
    "KeyNotMade": _as("invalid"),
    "TooManyKeys": _as("conflict"),
    "WorkspaceUnclear": _as("invalid_message"),
    "RequestTooLarge": _as("too_large"),
    "RequestTooSlow": _as("timeout", http_status=408),
    "ServerFull": _as("busy"),
    "NodeTypesNotLive": _as("invalid"),
    "TooManyRequests": _as("rate_limit", http_status=429),
    "TurnStopped": _as("unavailable"),
}

_ROOMS = frozenset({"datasources", "graphrag", "server", "tools"})
_COLON: dict[Language, str] = {"en": ": ", "fr": " : "}
_FACT_CHARS = 300


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
        message=headed(meaning.code, _sentence(exc, language), language),
        details=_details(exc, language),
    )


def headed(code: str, sentence: str, language: Language) -> str:
    """Return a sentence after its code's heading, as in “Not found: …”."""
    return _COLON[language].join((text(code, language), sentence))


def _meaning_of(exc: Exception) -> Meaning | None:
    meaning = next((MEANINGS[name] for name in _names(exc) if name in MEANINGS), None)
    if meaning is None:
        return None
    retryable = getattr(exc, "retryable", meaning.retryable)  # a provider may know better than its kind
    is_rate = meaning is MEANINGS["EmbeddingRefused"] and getattr(exc, "status", None) == 429
    return replace(meaning, code="rate_limit" if is_rate else meaning.code, retryable=retryable)


def _names(exc: Exception) -> list[str]:
    """Return the names of an exception's own classes, the nearest first; another library's are left out."""
    return [kind.__name__ for kind in type(exc).__mro__ if kind.__module__.partition(".")[0] in _ROOMS]


def _sentence(exc: Exception, language: Language) -> str:
    if isinstance(exc, LocalizedError):
        return exc.text(language)
    facts = {name: _fact(value) for name, value in vars(exc).items()}
    return " ".join(text(_key(exc), language, sentence=str(exc), **facts).split())


def _key(exc: Exception) -> str:
    return next(name for name in _names(exc) if name in catalogue("en"))


def _fact(value: Any) -> Any:
    if isinstance(value, tuple | list):
        parts = [str(part) for part in cast(Sequence[Any], value)]
        return ", ".join(parts[:5]) + (f" (+{len(parts) - 5})" if len(parts) > 5 else "")
    return value[:_FACT_CHARS] if isinstance(value, str) else value


def _details(exc: Exception, language: Language) -> str:
    if isinstance(exc, LocalizedError):
        return exc.details(language)
    reason = getattr(exc, "reason", None)
    is_said = bool(places(catalogue(language)[_key(exc)]) & {"reason", "sentence"})
    return reason if isinstance(reason, str) and not is_said else ""
