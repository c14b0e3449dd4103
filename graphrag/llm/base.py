"""The seam to language models: messages in, chunks of an answer out.

Decision: a tool call is handed over only when the whole answer has come. A stream that breaks
leaves `ToolCallStarted` without `ToolCallReady`, so nothing half-written can be run.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Container, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, Protocol, runtime_checkable

from datasources.types import is_storable
from tools.arguments import read_object

UNREADABLE = "INVALID_JSON"
"""The key under which arguments that are no JSON go back to the model. Source: Anthropic's page on
fine-grained tool streaming, which advises it."""

LateSystem = Literal["system", "user"]
"""As what a system message after the first turn is sent: some chat templates allow none there."""

FinishReason = Literal["stop", "tool_calls", "length", "unstated"]
"""Why an answer ended. `length`: it was cut off; `unstated`: a tolerated server did not say."""

ToolSchema = Mapping[str, Any]
"""A tool in OpenAI's function form, as `Tool.schema` returns it."""


Fact = Mapping[str, Any]
"""A part of a message in its stored form, which only its maker and its readers know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What a model wants to call. `arguments` is what it wrote, unread: JSON if all went well.

    `extra`: fields of the call that only its provider knows, such as a signature of
    the model's thinking.
    """

    id: str
    name: str
    arguments: str
    extra: Fact = field(default_factory=dict[str, Any], hash=False)


SystemKind = Literal[
    "DATA_ADDED",
    "ACTIONS_EXECUTED",
    "LIMIT_REACHED",
    "FORMAT_ERROR",
    "NETWORK_ERROR",
    "SESSION_TIMEOUT",
]
"""What a note of the service within a conversation is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFields:
    """What every message is stored with. `id` is unique in its thread, `time` in
    milliseconds since 1970.

    None: not stored yet; both are given when it is. Empty: stored by a program that knew neither.
    Two messages are equal that say the same.
    """

    id: str | None = field(default=None, compare=False)
    time: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMessage(StoredFields):
    """Instructions, retrieved context, or a note of the service, which has a `kind`.

    `content` is what the model sees. `stable`: the same in every call of the thread; `level` says
    how long (1: the session, 2: until what is always sent changes). `whole_graph`: it shows all of
    the graph, uncut. `summary` is the note for people, `results` one document a command that was
    run. `exclude_from_prompt`: for people only; `once`: in one request only.
    """

    content: str
    stable: bool = True
    level: Literal[1, 2] = 1
    once: bool = False
    whole_graph: bool = False
    kind: SystemKind | None = None
    summary: str = ""
    results: tuple[Fact, ...] = ()
    exclude_from_prompt: bool = False

    @property
    def data(self) -> str:
        """What commands found, as the model sees it."""
        return self.content if self.kind == "DATA_ADDED" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage(StoredFields):
    """What a person said. `retrieved`: keys of the nodes the model was shown for it, for
    people to see.

    `segments` are its words and blocks in order, where it has blocks; `execution`: the run
    that it began.
    """

    content: str
    retrieved: tuple[str, ...] = ()
    segments: tuple[Fact, ...] = ()
    execution: Fact | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage(StoredFields):
    """`extra`: what came with the message besides its text, in the form of the provider `origin`:
    reasoning, signatures. It goes back unchanged to that provider and to no other, as does the
    `extra` of its calls.

    `invalid`: its form was wrong, which the note that follows says. `exclude_from_prompt`:
    for people only.
    `not_in_graph`: what it claims that the graph did not have, for people: no provider gets it.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    origin: str = ""
    extra: Fact = field(default_factory=dict[str, Any], hash=False)
    invalid: bool = False
    exclude_from_prompt: bool = False
    not_in_graph: Fact | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessage(StoredFields):
    """The answer to a tool call. Follows the AssistantMessage that asked, one for every call.

    `outcome` says what became of a proposal, as facts (`approvals.outcome_facts`); models
    read the content.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    outcome: Mapping[str, Any] | None = None


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta:
    """A piece of the model's thinking; not part of its answer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextWasThinking:
    """All text of the answer so far was thinking: its closing tag came, and it
    had no opening one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """A call is being written: its id and name are known, its arguments are not. Comes
    once a call.
    """

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallReady:
    """A call with all of its arguments. `index` is that of its ToolCallStarted."""

    index: int
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCut:
    """A call that did not arrive whole: its arguments were cut off, or its name is missing. It is
    never run; the model gets that as its result.
    """

    index: int
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallSetAside:
    """What arrived of a call that nobody here is to run: another choice's, a spliced stream's, or
    one that the provider ran on its side (a web search, say). It was written, so it is paid for,
    and that is all.
    """

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Tokens of one request. `prompt` includes `cached` and `cache_written`; `completion` includes
    `reasoning`. A stream with a repeated attempt may hold several: they add up."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0


TOKENS: Final = tuple(part.name for part in fields(UsageReport))
"""The kinds of tokens that are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageExtra:
    """What has to go back with the answer to the provider `origin`: see AssistantMessage.

    It comes once, at the answer's end.
    """

    origin: str
    fields: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRead:
    """How much of the prompt the model has read, where its server says so. Units: tokens.

    `loading`: nothing yet, as the server still loads the model.
    """

    done: int
    total: int
    loading: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The answer is whole. Always the last chunk; a stream without it raised instead."""

    reason: FinishReason


Chunk = (
    TextDelta
    | ReasoningDelta
    | TextWasThinking
    | ToolCallStarted
    | ToolCallReady
    | ToolCallCut
    | ToolCallSetAside
    | UsageReport
    | MessageExtra
    | PromptRead
    | Finished
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """How to answer. None: the provider's own setting."""

    max_tokens: int | None = None
    temperature: float | None = None
    tool_choice: Literal["auto", "none", "required"] = "auto"


DEFAULT_OPTIONS = ModelOptions()


class LLMProvider(Protocol):
    """A language model behind some interface. `context_window` is in tokens, prompt
    and answer together.
    """

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def context_window(self) -> int: ...

    def stream(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSchema] = (),
        options: ModelOptions = DEFAULT_OPTIONS,
    ) -> AsyncGenerator[Chunk]:
        """Yield the answer piece by piece, ending with `Finished`. Close it (`aclosing`)
        to stop early.

        Failed attempts are repeated only as long as nothing of an answer was yielded.
        Raises: ModelError.
        """
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What a server serves: the models' names, and the window in tokens where the
    server says it.
    """

    models: tuple[str, ...]
    window: int | None


@runtime_checkable
class LearnsWindow(Protocol):
    """A provider whose server may say how large the window is."""

    async def facts(self) -> ServerFacts:
        """Ask the server what it serves. Raises: ModelError."""
        ...

    async def learn_window(self) -> None:
        """Ask for the window, once and not for long; `context_window` is right after
        it. Raises nothing.
        """
        ...


def add_usage(one: UsageReport | None, other: UsageReport) -> UsageReport:
    """Return the sum of two reports."""
    if one is None:
        return other
    return UsageReport(**{name: getattr(one, name) + getattr(other, name) for name in TOKENS})


def clean(text: str) -> str:
    """Returns the text with halves of surrogate pairs joined; half a pair alone, which UTF-8 cannot
    hold, as U+FFFD.
    """
    return (
        text
        if is_storable(text)
        else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


def is_json(text: str) -> bool:
    """Return whether a text is one whole JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def readable_arguments(call: ToolCall) -> str:
    """Return a call's arguments as JSON of an object, whatever was written."""
    text = call.arguments.strip() or "{}"
    if read_object(text) is not None:
        return clean(text)
    return json.dumps({UNREADABLE: clean(call.arguments)}, ensure_ascii=False)


def free_id(call_id: str, taken: Container[str]) -> str:
    """Return the id of a call, or one made of it where it is taken."""
    base = call_id or "call"
    given = base
    again = 1
    while given in taken:
        again += 1
        given = f"{base}_{again}"
    return given


def is_stable(message: Message) -> bool:
    """Return whether a message is instructions that stand unchanged in every call of a thread."""
    return isinstance(message, SystemMessage) and message.stable
