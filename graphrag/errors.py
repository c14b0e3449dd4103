"""The one table from an exception to its meaning: code, HTTP status, exit code, whether
to retry, text.

The table names classes, so that the rooms above and below are in it without being imported. The
text of an exception stands in the catalogue (`graphrag.i18n`): a `LocalizedError` names its own,
another one's key is the name of its class.

From outside: `describe`, `Described`, `CODES`, the exit codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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

    `details` is what no sentence holds: a provider's own words, or an English reason where
    that is another one.
    """

    message: str
    details: str = ""


def _table(
    *rows: tuple[str, int, dict[str, Any], str],
) -> tuple[dict[str, Meaning], dict[str, Meaning]]:
    """Return the meanings by code, and by the name of an exception's class."""
    codes = {code: Meaning(code=code, http_status=status, **more) for code, status, more, _ in rows}
    named = {name: codes[code] for code, _, _, names in rows for name in names.split()}
    return codes, named | {name: replace(named[name], **more) for name, more in _OTHERWISE.items()}


_LATER = {"retryable": True}
_WRONG_USE = {"exit_code": EXIT_USAGE}
_NONE_THERE = {"exit_code": EXIT_NOTHING}

_OTHERWISE: Mapping[str, dict[str, Any]] = {
    "RevisionConflict": _LATER,
    "RecordConflict": _LATER,
    "BadUseValue": _WRONG_USE,
    "SourceRefused": {"retryable": False},
    "EmbeddingMalformed": {"retryable": False},
    "EmbeddingModelDiffers": {"http_status": 500},
    "UnnamedVectors": {"http_status": 500},
    "AdoptedOfOtherLength": {"http_status": 500},
    "ProposalExpired": {"http_status": 410},
    "ProposalWaits": _LATER,
    "CodemodRefused": _WRONG_USE,
    "ThreadOfOtherGraph": {"http_status": 409},
    "ThreadBusy": {"http_status": 409},
    "LiveGraphClosed": _LATER,
    "ServiceError": {"retryable": False},
    "SettingsError": {"http_status": 500},
    "QueryFileError": {"http_status": 400, "exit_code": EXIT_USAGE},
    "UnreadableKnowledge": _WRONG_USE,
    "WebhookBusy": _LATER,
    "RequestTooSlow": {"http_status": 408},
    "TooManyRequests": {"http_status": 429},
}
"""Exceptions that mean something else in a part than their code's others."""

CODES, MEANINGS = _table(
    ("agent_not_found", 404, _NONE_THERE, "AgentNotFound"),
    (
        "agent_state",
        409,
        {},
        "AgentStateRefused AgentNotRunning AgentNotInChat AgentInChatOnly NoBrowserTalk",
    ),
    ("auth_error", 502, {}, "EmbeddingUnauthorized ModelUnauthorized"),
    ("bad_document", 500, {}, "BadDocument"),
    (
        "busy",
        503,
        _LATER,
        "DatabaseBusy SourceBusy ApprovalBusy ThreadBusy EditNotKept LiveElsewhere WorkersBusy ServerFull "
        "ConnectionBusy",
    ),
    ("call_not_found", 404, _NONE_THERE, "CallNotFound"),
    ("capacity", 503, _LATER, "CallsFull"),
    (
        "conflict",
        409,
        {},
        "GraphExists RevisionConflict RecordConflict AlreadyProposed RejectedBefore AlreadyDecided "
        "ProposalWaits DiscussionFull NothingToResume NoQuestion AlreadyAnswered AutomationChanged "
        "AutomationRefused SessionRefused SessionPast TurnUnwanted AgentChanged ThreadOfOtherAgent "
        "ThreadWithoutAgent ThreadEnded DeliveryRefused CallEnded CallOpen LiveGraphClosed WebhookBusy "
        "TooManyKeys ConnectionExists PushDecided",
    ),
    ("content_filter", 422, {}, "ModelContentFiltered"),
    ("context_length", 413, {}, "ModelContextTooLong WindowTooSmall"),
    ("damaged", 500, {}, "DatabaseDamaged"),
    (
        "forbidden",
        403,
        {},
        "NotAllowed AutomationForbidden AgentBlocked CallerForbidden CallForbidden CallBlocked "
        "ForeignPage RoleNeeded ConnectionForbidden OperatorNeeded",
    ),
    ("host_not_allowed", 422, {}, ""),
    (
        "internal",
        500,
        {},
        "UnknownIndexField PromptError ToonError LeaseRefused LeasesFailed LeftOut Unexpected",
    ),
    (
        "invalid",
        422,
        {},
        "InvalidMutation BadUseValue InstructionError ProposalRefused CodemodRefused EmptyMessage "
        "ThreadOfOtherGraph AutomationInvalid AgentTryFailed AgentGraphUnknown CallerTooLate BlockRefused "
        "EditRefused TooMuchToArrange NotExportable PeriodError ScheduleError WrongResponse "
        "MalformedArguments MalformedProposal KeyNotMade NodeTypesNotLive ConnectionRefused "
        "EditorFault SettingRefused SettingFixed CannotReplay",
    ),
    ("invalid_agent", 422, _WRONG_USE, "InvalidAgent"),
    ("invalid_message", 422, {}, "WorkspaceUnclear"),
    ("method_not_allowed", 405, {}, ""),
    (
        "network",
        502,
        _LATER,
        "EmbeddingUnreachable ModelUnreachable ModelStreamBroken ServiceUnreachable NotTried "
        "EditorUnreachable",
    ),
    ("no_credit", 502, {}, "ModelNoCredit"),
    (
        "not_found",
        404,
        _NONE_THERE,
        "GraphNotFound ApprovalNotFound TypeNotFound NothingToUndo ThreadNotFound AutomationNotFound "
        "ConnectionNotFound WorkflowNotLinked PushNotFound "
        "SessionNotFound AgentToolNotFound DeliveryNotFound EditNotFound ModelNotFound WebhookNotFound "
        "KeyNotFound BackupNotFound",
    ),
    ("other_version", 500, {}, "DatabaseOutdated DatabaseVersion ThreadVersion UpgradeNeeded"),
    ("rate_limit", 503, _LATER, "ModelRateLimited TooManyRequests"),
    ("request_refused", 502, {}, "ModelRequestRefused ModelNotUsable"),
    ("secret_missing", 422, {}, ""),
    (
        "server_error",
        502,
        _LATER,
        "EmbeddingMalformed EmbeddingRefused ModelFailed ModelAnswerMalformed ServiceError",
    ),
    ("signature", 403, {}, "SignatureRefused"),
    ("stale", 409, {}, "ProposalExpired UndoGone UndoRefused"),
    ("timeout", 504, _LATER, "SourceTimeout ModelTimedOut RequestTooSlow"),
    (
        "too_large",
        413,
        {},
        "AutomationTooLong AgentTooLarge TooManyBlocks GraphTooLarge RequestTooLarge",
    ),
    ("unauthorized", 401, {}, "StreamRefused AuthError"),
    (
        "unavailable",
        503,
        _LATER,
        "SourceUnavailable SourceRefused AgentSessionFailed EditingStopped KeysUnavailable "
        "IdentityProviderDown TurnStopped",
    ),
    (
        "unreadable",
        422,
        {},
        "AgentListRefused QueryFileError UnreadableWorkflow UnreadableKnowledge",
    ),
    (
        "usage",
        400,
        _WRONG_USE,
        "InvalidDatabaseUrl EmbeddingModelDiffers UnnamedVectors AdoptedOfOtherLength SettingsError",
    ),
    ("usage_limit", 429, {}, "UsageLimitReached AutomationsSpent TooManyAgents"),
)
"""What a code means to a caller, with the exceptions that have it, by the names of their classes;
and the same by the name of an exception. The text under a code is its heading.
"""

_ROOMS = frozenset({"datasources", "graphrag", "server", "tools"})
_FACT_CHARS = 300


def describe(exc: Exception, language: Language) -> Described | None:
    """Return what to say of an expected error, or None for one that nobody foresaw."""
    meaning = _meaning_of(exc)
    if meaning is None:
        return None
    return Described(
        **asdict(meaning),
        message=headed(meaning.code, _sentence(exc, language), language),
        details=_details(exc, language),
    )


def headed(code: str, sentence: str, language: Language) -> str:
    """Returns a sentence after its code's heading, as in “Not found: …”."""
    return text("headed", language, heading=text(code, language), sentence=sentence)


def _meaning_of(exc: Exception) -> Meaning | None:
    meaning = next((MEANINGS[name] for name in _names(exc) if name in MEANINGS), None)
    if meaning is None:
        return None
    # a provider may know better than its kind
    retryable = getattr(exc, "retryable", meaning.retryable)
    is_rate = meaning is MEANINGS["EmbeddingRefused"] and getattr(exc, "status", None) == 429
    return replace(meaning, code="rate_limit" if is_rate else meaning.code, retryable=retryable)


def _names(exc: Exception) -> list[str]:
    """Return the names of an exception's own classes, the nearest first; another library's
    are left out.
    """
    return [
        kind.__name__ for kind in type(exc).__mro__ if kind.__module__.partition(".")[0] in _ROOMS
    ]


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
