"""Rules between the parts of an agent document, and warnings.

From outside: `broken_rules`, `warnings_of`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from graphrag.agents.compiled_agent import CompiledAgent, requests_of
from graphrag.agents.declared_tools import parameters_problem
from graphrag.agents.document import AgentDocument
from graphrag.agents.document_paths import stored_names
from graphrag.agents.engine_rules import ignored_by_engine
from graphrag.agents.realtime_models import (
    REALTIME_MODELS,
    RETIRING,
    TAKE_KEYWORDS,
    TAKE_NO_PROMPT,
    TRANSCRIBERS,
)
from graphrag.agents.session_fields import FetchedSession, ToolDeclaration
from graphrag.agents.shape_problems import near
from graphrag.agents.world import base_origin, places_of_hosts, problem
from tools.http.addresses import is_loopback
from tools.http.compiled import broken_request, broken_tool, misread, secrets_of
from tools.http.model import BuiltinTool, HttpTool
from tools.http.problems import DocumentProblem
from tools.http.scope import (
    AT_END,
    CHECK,
    GREETING,
    INSTRUCTIONS,
    LIFECYCLE,
    SESSION_REQUEST,
    TOOL,
    TRANSFER,
)
from tools.read_tools import READ_TOOLS
from tools.time_zones import is_time_zone
from tools.write_tools import WRITE_TOOLS

GRAPH_READ_TOOLS: Final = tuple(tool.name for tool in READ_TOOLS)
GRAPH_TOOLS: Final = frozenset((*GRAPH_READ_TOOLS, *(tool.name for tool in WRITE_TOOLS)))

_Found = Iterator[DocumentProblem]


def broken_rules(document: AgentDocument) -> _Found:
    """Yields the errors of a document with a valid shape."""
    yield from _misread(document)
    secrets = {use.name: use.hosts for use in document.secrets}
    for where, request in requests_of(document):
        yield from broken_request(request, where, document.base_url, secrets)
    for name, tool in document.tools.items():
        if isinstance(tool, HttpTool):
            yield from broken_tool(tool, f"tools.{name}")
    yield from _repeated(document)
    yield from _declarations(document)
    yield from _graphs(document)
    yield from _transfers(document)
    if document.agent.timezone is not None and not is_time_zone(document.agent.timezone):
        what = f"there is no time zone {document.agent.timezone[:64]!r}"
        yield problem("agent.timezone", "out_of_range", what, "an IANA name as Europe/Paris")
    if document.base_url is not None and base_origin(document.base_url) is None:
        yield problem(
            "base_url", "out_of_range", "the address has no usable host", "https://HOST:PORT/PATH"
        )
    for index, check in enumerate(document.pre_call_checks):
        if check.on_block == "message" and check.message is None:
            what = "message is missing: on_block says that one is said"
            yield problem(f"pre_call_checks.{index}.message", "missing_field", what, "a text")
    greeting = document.greeting
    if (
        greeting is not None
        and greeting.known_customer is None
        and greeting.unknown_customer is None
    ):
        what = "a greeting has a text"
        yield problem(
            "greeting.unknown_customer", "missing_field", what, "known_customer, unknown_customer"
        )


def _misread(document: AgentDocument) -> _Found:
    """Yields templates that cannot be read at their place."""
    session = document.session
    lifecycle = document.lifecycle
    if isinstance(session, FetchedSession):
        yield from misread(session.fallback, "session.fallback", INSTRUCTIONS)
        session = session.model_copy(update={"fallback": None})
        yield from misread(session, "session", SESSION_REQUEST)
    else:
        yield from misread(session.instructions, "session.instructions", INSTRUCTIONS)
    yield from misread(document.pre_call_checks, "pre_call_checks", CHECK)
    yield from misread(document.greeting, "greeting", GREETING)
    yield from misread(lifecycle.on_start, "lifecycle.on_start", LIFECYCLE)
    yield from misread(lifecycle.on_transfer, "lifecycle.on_transfer", TRANSFER)
    yield from misread(lifecycle.on_no_action, "lifecycle.on_no_action", AT_END - {"outcome"})
    yield from misread(lifecycle.on_end, "lifecycle.on_end", AT_END)
    yield from misread(document.tools, "tools", TOOL)


def _repeated(document: AgentDocument) -> _Found:
    named = [
        ("pre_call_checks", document.pre_call_checks),
        ("secrets", document.secrets),
        *_declared(document),
    ]
    lists: list[tuple[str, str, Sequence[str]]] = [
        ("graphs", "", document.graphs),
        ("channels", "", document.channels),
        *((where, ".name", [part.name for part in parts]) for where, parts in named),
    ]
    for where, field, names in lists:
        for index, name in enumerate(names):
            if name in names[:index]:
                what = f"{name} stands here twice"
                yield problem(f"{where}.{index}{field}", "duplicate_name", what, "each name once")


def _declared(document: AgentDocument) -> list[tuple[str, Sequence[ToolDeclaration]]]:
    """Returns the declarations of a document, each list with its place."""
    session = document.session
    if not isinstance(session, FetchedSession):
        return [("session.tools", session.tools)]
    return [("session.fallback.tools", session.fallback.tools)] if session.fallback else []


def _declarations(document: AgentDocument) -> _Found:
    handlers = document.tools.keys()
    for where, declared in _declared(document):
        for index, declaration in enumerate(declared):
            at = f"{where}.{index}"
            name = declaration.name
            bad = parameters_problem(declaration.parameters)
            if bad is not None:
                yield bad.at(f"{at}.parameters")
            if name in GRAPH_TOOLS:
                yield _reserved(f"{at}.name", name)
            elif name not in handlers:
                what = f"tools has no handler {name}{near(name, handlers)}"
                yield problem(
                    f"{at}.name",
                    "unhandled_tool",
                    what,
                    ", ".join(handlers) or "a handler in tools",
                )
    for name in handlers & GRAPH_TOOLS:
        yield _reserved(f"tools.{name}", name)


def _reserved(where: str, name: str) -> DocumentProblem:
    return problem(where, "reserved_name", f"{name} is a tool of graphs", "any other name")


def _graphs(document: AgentDocument) -> _Found:
    if isinstance(document.graph_tools, list):
        for index, name in enumerate(document.graph_tools):
            if name not in GRAPH_READ_TOOLS:
                what = f"no tool reads graphs as {name}{near(name, GRAPH_READ_TOOLS)}"
                allowed = ", ".join(GRAPH_READ_TOOLS)
                yield problem(f"graph_tools.{index}", "unknown_graph_tool", what, allowed)
    if document.permissions.propose and document.permissions.role != "editor":
        what = "a viewer may not propose changes"
        yield problem(
            "permissions.role", "propose_needs_editor", what, '"editor", or propose: false'
        )


def _transfers(document: AgentDocument) -> _Found:
    known = ", ".join(document.voice.destinations)
    transfers = {
        name
        for name, tool in document.tools.items()
        if isinstance(tool, BuiltinTool) and tool.action == "transfer"
    }
    if not known:
        for name in sorted(transfers):
            what = "there is nowhere to transfer a call to"
            yield problem(
                f"tools.{name}", "unknown_destination", what, "destinations in voice.destinations"
            )
    for where, name in _fallbacks(document):
        if name not in document.voice.destinations:
            what = f"voice.destinations has no {name}{near(name, document.voice.destinations)}"
            yield problem(
                where, "unknown_destination", what, known or "destinations in voice.destinations"
            )
    recording = document.voice.recording
    if recording.enabled and not (recording.notice or "").strip():
        what = "notice is missing: callers are told before they are recorded"
        yield problem("voice.recording.notice", "missing_field", what, "a text")
    for name, destination in document.voice.destinations.items():
        if destination.summary == "posted" and document.lifecycle.on_transfer is None:
            what = f"lifecycle.on_transfer is missing: the summary for {name} is sent there"
            allowed = "a request, or another summary"
            yield problem("lifecycle.on_transfer", "missing_field", what, allowed)
    for where, declared in _declared(document):
        for index, declaration in enumerate(declared):
            for name in (
                _destinations(declaration) if declaration.name in transfers and known else ()
            ):
                if name not in document.voice.destinations:
                    at = f"{where}.{index}.parameters.properties.destination"
                    what = f"voice.destinations has no {str(name)[:80]}"
                    yield problem(at, "unknown_destination", what, known)


def _fallbacks(document: AgentDocument) -> Iterator[tuple[str, str]]:
    """Yields the fallback destinations with their places."""
    if document.voice.fallback is not None:
        yield "voice.fallback", document.voice.fallback
    for name, destination in document.voice.destinations.items():
        if destination.fallback is not None:
            yield f"voice.destinations.{name}.fallback", destination.fallback


def _destinations(declaration: ToolDeclaration) -> Sequence[Any]:
    """Returns the destinations that a declaration lists for the model."""
    properties = declaration.parameters.get("properties")
    shape = (
        cast(dict[str, Any], properties).get("destination")
        if isinstance(properties, dict)
        else None
    )
    listed = cast(dict[str, Any], shape).get("enum") if isinstance(shape, dict) else None
    return cast(list[Any], listed) if isinstance(listed, list) else ()


def warnings_of(agent: CompiledAgent) -> _Found:
    """Yields what is allowed in a document, but probably a mistake."""
    document = agent.document
    session = document.session
    if not isinstance(session, FetchedSession):
        declared = {declaration.name for declaration in session.tools}
        for name, tool in document.tools.items():
            if isinstance(tool, HttpTool) and name not in declared:
                what = f"{name} is not declared in session.tools: the model cannot call it"
                yield problem(
                    f"tools.{name}", "undeclared_tool", what, "a declaration of this name"
                )
    posts = any(each.summary == "posted" for each in document.voice.destinations.values())
    if document.lifecycle.on_transfer is not None and not posts:
        what = "no destination has the summary posted: the request is never sent"
        yield problem("lifecycle.on_transfer", "ignored_field", what, "summary: posted")
    yield from _rules(agent)
    yield from ignored_by_engine(document)
    yield from _voice_model(document)
    headers = [
        header for _, request in requests_of(document) for header in request.headers.values()
    ]
    used = {secret for header in headers for secret in secrets_of(header)}
    for index, use in enumerate(document.secrets):
        if use.name not in used:
            what = f"no header holds {{{{secret.{use.name}}}}}"
            yield problem(f"secrets.{index}", "unused_secret", what, None)
    for origin, where in places_of_hosts(agent).items():
        if origin.scheme == "http" and not is_loopback(origin.host):
            what = f"what is sent to {origin.host} can be read on its way"
            yield problem(where, "insecure_url", what, "https")


def _rules(agent: CompiledAgent) -> _Found:
    lifecycle = agent.document.lifecycle
    known = stored_names(agent.document)
    rules = lifecycle.outcome_rules
    for index, rule in enumerate(rules):
        if rule.flag is not None and rule.flag not in known:
            what = f"nothing sets the flag {rule.flag}{near(rule.flag, known)}"
            where = f"lifecycle.outcome_rules.{index}.flag"
            yield problem(where, "unset_flag", what, ", ".join(sorted(known)))
    if rules and all(rule.flag is not None for rule in rules):
        what = "without a rule that always holds, the outcome may be null"
        yield problem(
            "lifecycle.outcome_rules", "no_fallback_outcome", what, 'a last rule with "flag": null'
        )


def _voice_model(document: AgentDocument) -> _Found:
    model = document.openai
    vad = document.openai.vad
    if model.temperature is not None:
        what = "Realtime sessions have no temperature: it is not sent"
        yield problem("openai.temperature", "ignored_field", what, None)
    is_server = vad.type == "server_vad"
    for name in sorted(vad.model_fields_set - {"type"}):
        if (name == "eagerness") == is_server:
            other = "semantic_vad" if is_server else "server_vad"
            yield problem(f"openai.vad.{name}", "ignored_field", f"{vad.type} has no {name}", other)
    transcription = model.input_audio_transcription.model
    if model.input_audio_transcription.graph_names:
        where = "openai.input_audio_transcription.graph_names"
        if transcription in TAKE_NO_PROMPT:
            what = f"{transcription} takes no names"
            yield problem(where, "ignored_field", what, ", ".join(sorted(TAKE_KEYWORDS)))
        elif not document.graphs:
            yield problem(where, "ignored_field", "the agent reads no graph", "keys in graphs")
    places = (
        ("openai.model", model.model, REALTIME_MODELS, "Realtime model"),
        ("openai.input_audio_transcription.model", transcription, TRANSCRIBERS, "transcriber"),
    )
    for where, name, known, kind in places if document.uses_realtime else ():
        if name in RETIRING:
            yield problem(
                where, "model_retires", f"the vendor announced the end of {name}", RETIRING[name]
            )
        elif name not in known:
            what = f"{name} is no {kind} that the vendor publishes{near(name, known)}"
            yield problem(where, "unknown_model", what, ", ".join(known))
