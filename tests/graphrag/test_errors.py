"""The table of meanings: every exception of the rooms is in it, with a whole sentence
in both languages.
"""

import importlib
import inspect
import pkgutil
from functools import cache
from typing import Any, Literal, get_args, get_origin

import pytest

from datasources import errors as data
from graphrag.agent.events import FAULT_CODES, classify
from graphrag.agents.errors import InvalidAgent
from graphrag.app.database_transfer import CopyRefused
from graphrag.approvals import errors as approvals
from graphrag.automations.errors import AutomationRefused
from graphrag.bridge.phone_messages import MessageRefused
from graphrag.commands import BlockRefused
from graphrag.config import SettingsError
from graphrag.connections.document_patch import PatchConflict, SecretInChange
from graphrag.connections.errors import ConnectionRefused, EditorFault
from graphrag.connections.push_plan import PushStopped
from graphrag.embedding import embedder
from graphrag.errors import CODES, EXIT_NOTHING, EXIT_USAGE, MEANINGS, describe
from graphrag.i18n import LocalizedError, catalogue, places
from graphrag.llm.answers import Unreadable
from graphrag.llm.errors import ModelError
from graphrag.llm.usage_meter import UsageLimitReached
from graphrag.realtime.model_side import RealtimeRefused, RealtimeUnreachable
from graphrag.rules.turn_state import GraphNamed, NotNamed
from graphrag.simulator.call_script import InvalidScript
from graphrag.simulator.double_session import EventRefused
from graphrag.simulator.speech import UnreadableWav
from graphrag.simulator.twilio_line import LineRefused
from server.errors import AuthError, TurnBroken
from server.page_bundle import PageNotJoined
from server.voice.media_stream import PhoneGone
from server.ws_messages import InvalidMessage
from server.ws_outbox import ClientGone
from tests.graphrag.test_i18n import english_in
from tools.base import Problem
from tools.http.addresses import AddressRefused
from tools.http.builders import BuilderFailed
from tools.http.fetch import RequestFailed
from tools.http.filters import TemplateFailed
from tools.http.problems import BadText, DocumentProblem

ROOMS = ("datasources", "graphrag", "server", "tools")
ANSWERED = {
    *(TurnBroken, InvalidMessage, ClientGone, Unreadable, NotNamed, GraphNamed),
    *(PhoneGone, MessageRefused),
    *(AddressRefused, BadText, BuilderFailed, RequestFailed, TemplateFailed),
    *(RealtimeRefused, RealtimeUnreachable, EventRefused),
    *(PatchConflict, SecretInChange, PushStopped),
    *(InvalidScript, LineRefused, UnreadableWav, PageNotJoined, CopyRefused),
}
"""Caught where they are raised: a turn carries its own fault, and a client that is
gone reads nothing.
"""
REASON = "the upstream said: nope, this is what the other side wrote"


@cache
def exceptions_of_the_rooms() -> list[type[Exception]]:
    """Return every exception class that a module of the rooms defines for others."""
    found = list[type[Exception]]()
    for room in ROOMS:
        package = importlib.import_module(room)
        names = [room, *(m.name for m in pkgutil.walk_packages(package.__path__, f"{room}."))]
        for name in names:
            for member in vars(importlib.import_module(name)).values():
                is_own = getattr(member, "__module__", None) == name and isinstance(member, type)
                if is_own and issubclass(member, Exception) and not member.__name__.startswith("_"):
                    found.append(member)
    return found


def raised() -> list[type[Exception]]:
    """Return the classes that reach `describe`: a base is caught, never raised."""
    kinds = {k for k in exceptions_of_the_rooms() if not k.__subclasses__()} - ANSWERED
    return sorted(kinds, key=lambda kind: kind.__name__)


def test_every_exception_that_is_raised_has_a_row_of_its_own_name() -> None:
    found = raised()
    unmapped = [k for k in found if not any(parent.__name__ in MEANINGS for parent in k.__mro__)]
    assert unmapped == [], f"give these a row in graphrag.errors.MEANINGS: {unmapped}"
    named = {kind.__name__ for kind in exceptions_of_the_rooms()}
    assert set(MEANINGS) <= named, "these rows name no class any more"
    assert len({kind.__name__ for kind in found}) == len(found), "two exceptions have one name"


def test_every_code_has_a_status_and_every_fault_of_a_turn_a_code() -> None:
    assert all(400 <= meaning.http_status <= 599 for meaning in CODES.values())
    assert all(meaning.exit_code in (1, 2, 3) for meaning in [*CODES.values(), *MEANINGS.values()])
    assert set(CODES) >= FAULT_CODES


def test_every_error_is_a_whole_sentence_in_both_languages(subtests: pytest.Subtests) -> None:
    for kind in raised():
        with subtests.test(kind=kind.__name__):
            check_sentences_of(made(kind))


def check_sentences_of(exc: Exception) -> None:
    english = describe(exc, "en")
    french = describe(exc, "fr")
    assert english.message != french.message
    assert not any(mark in one.message for one in (english, french) for mark in "{}")
    assert REASON not in french.message
    assert english_in(french.message) == set()
    if isinstance(exc, ModelError) and not isinstance(exc, UsageLimitReached):
        fault = classify(exc)
        for sentence in (english.message, *fault.messages.values()):
            assert REASON not in sentence
        assert english.details == french.details == fault.details == REASON


def test_a_description_has_the_facts_and_the_language_asked_for() -> None:
    missing = data.GraphNotFound(graph_key="flow-7")
    english = describe(missing, "en")
    french = describe(missing, "fr")
    assert (english.code, english.http_status, english.exit_code) == (
        "not_found",
        404,
        EXIT_NOTHING,
    )
    assert "flow-7" in english.message
    assert "flow-7" in french.message


def test_an_unforeseen_error_has_no_description_whatever_its_name() -> None:
    foreign = type("DatabaseBusy", (Exception,), {"__module__": "another.library"})
    assert describe(KeyError("x"), "en") is None
    assert describe(foreign("password"), "en") is None


def test_a_conflict_may_be_tried_again_and_a_wrong_setting_may_not() -> None:
    conflict = describe(data.RevisionConflict(graph_key="g", expected=1, actual=2), "en")
    wrong = describe(SettingsError(name="mode", origin="here", reason="no"), "en")
    assert conflict.retryable
    assert not wrong.retryable
    assert wrong.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("status", "retryable"), [(400, False), (404, False), (429, True), (503, True)]
)
def test_a_refused_embedding_is_tried_again_if_the_service_says_so(
    status: int, retryable: bool
) -> None:
    refused = embedder.EmbeddingRefused(
        provider="p", status=status, reason="r", retryable=retryable
    )
    described = describe(refused, "en")
    assert described.retryable is retryable
    assert described.code == ("rate_limit" if status == 429 else "server_error")


def made(kind: type[Exception]) -> Exception:
    """Return an error of a kind, its facts made up."""
    if issubclass(kind, approvals.NotAllowed):
        return kind(code="four_eyes", user_id="ed", role="editor")
    if issubclass(kind, AutomationRefused):
        return kind("automation_name_length", most=80)
    if issubclass(kind, ConnectionRefused):
        return kind("connection_name", name="x7")
    if issubclass(kind, EditorFault):
        return kind("editor_status", address="x7", status="500")
    if issubclass(kind, approvals.CodemodRefused):
        return kind(code="codemod_nothing", value="x7")
    if issubclass(kind, BlockRefused):
        return kind(number=2, why="id_twice", id="b1")
    if issubclass(kind, AuthError):
        return kind(code="token_claims", claim="aud")
    if issubclass(kind, approvals.ProposalRefused):
        return kind(problems=[Problem(what=REASON)])
    if issubclass(kind, approvals.AlreadyDecided):
        return kind(approval_id="a", status="applied", by="ed")
    if issubclass(kind, InvalidAgent):
        return kind(errors=[DocumentProblem(where="agent.id", code="bad_name", what="a")])
    given = inspect.signature(kind).parameters.values()
    wanted = [p for p in given if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    takes_any = issubclass(kind, LocalizedError) and any(p.kind is p.VAR_KEYWORD for p in given)
    facts = dict.fromkeys(places(catalogue("en")[kind.code]), 3) if takes_any else {}
    hints = inspect.get_annotations(kind.__init__, eval_str=True)
    named = {p.name: value_of(p.name, hints.get(p.name, str)) for p in wanted}
    return kind(**facts | named | extra(kind))


def extra(kind: type[Exception]) -> dict[str, Any]:
    """Return what a kind takes beside its own facts: only a time-out may be given a
    reason or not.
    """
    return {"reason": REASON} if kind.__name__ == "ModelTimedOut" else {}


def value_of(name: str, hint: Any) -> Any:
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    if name == "reason":
        return REASON
    text = str(hint)
    if "Sequence" in text or "list" in text or "tuple" in text:
        return ("a", "b")
    if "int" in text:
        return 3
    if "float" in text:
        return 2.5
    return "x7"
