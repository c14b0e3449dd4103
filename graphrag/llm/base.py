"""The interface to language models: messages in, chunks of an answer out.

Decision: a tool call is handed over only after the whole answer has arrived. A stream that breaks
leaves `ToolCallStarted` without `ToolCallReady`, so an incomplete call is never executed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Container, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, Protocol, runtime_checkable

from datasources.types import is_storable
from tools.arguments import read_object

# The key under which arguments that are not JSON are sent back to the model. Source: Anthropic's
# page on fine-grained tool streaming.
UNREADABLE = "INVALID_JSON"

# The role that a system message after the first turn is sent with. Some chat templates allow no
# late system messages.
LateSystem = Literal["system", "user"]

# Why an answer ended. `length`: it was cut off. `unstated`: the server gave no reason.
FinishReason = Literal["stop", "tool_calls", "length", "unstated"]

ToolSchema = Mapping[str, Any]  # A tool in OpenAI's function form, as `Tool.schema` returns it.


# A part of a message as JSON. Its form is known to the module that writes it and those that read
# it.
Fact = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that a model asks for. `arguments`: as the model wrote it, normally JSON.

    `extra`: fields of the call that only its provider understands, such as a signature of the
    thinking.
    """

    id: str
    name: str
    arguments: str
    extra: Fact = field(default_factory=dict[str, Any], hash=False)


# The subject of a note that the service adds to a conversation.
SystemKind = Literal[
    "DATA_ADDED",
    "ACTIONS_EXECUTED",
    "LIMIT_REACHED",
    "FORMAT_ERROR",
    "NETWORK_ERROR",
    "SESSION_TIMEOUT",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFields:
    """The fields of every stored message. `id` is unique in its thread, `time` in milliseconds
    since 1970.

    None: not stored yet; storing sets both. Empty: stored by an older version without them. Neither
    is part of the comparison of messages.
    """

    id: str | None = field(default=None, compare=False)
    time: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMessage(StoredFields):
    """Instructions, retrieved context, or a note of the service, which has a `kind`.

    `content`: the text for the model. `stable`: the same in every call of the thread; `level`: for
    how long (1: the session, 2: until the permanent context changes). `whole_graph`: it contains
    the entire graph. `summary`: the note for people. `results`: one document per executed command.
    `exclude_from_prompt`: for people only. `once`: sent in one request only.
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
        """The results of commands, as the model sees them."""
        return self.content if self.kind == "DATA_ADDED" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage(StoredFields):
    """A message of a person. `retrieved`: keys of the nodes that the model was shown for it.

    `segments`: its words and blocks in order, if it has blocks. `execution`: the run that it
    started.
    """

    content: str
    retrieved: tuple[str, ...] = ()
    segments: tuple[Fact, ...] = ()
    execution: Fact | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage(StoredFields):
    """A message of the model.

    `extra`: fields beside the text, in the form of the provider `origin`, such as reasoning and
    signatures. They are sent back unchanged to that provider only, as is the `extra` of the calls.
    `invalid`: its form was wrong; the note that follows says why. `exclude_from_prompt`: for people
    only. `not_in_graph`: claims that the graph does not support, for people only.
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
    """The result of a tool call. After an AssistantMessage there is one for each of its calls.

    `outcome`: the outcome of a proposal, as facts (`approvals.outcome_facts`). Models read the
    content.
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
    """All text of the answer so far was thinking: it ended with a closing tag that was never
    opened.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStarted:
    """The beginning of a call: its id and name, without arguments. Sent once per call."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallReady:
    """A complete call. `index` is that of its ToolCallStarted."""

    index: int
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallCut:
    """An incomplete call: its arguments were cut off, or its name is missing. It is not executed,
    and the model is told so.
    """

    index: int
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallSetAside:
    """A call that is not to be executed here: part of another choice or a spliced stream, or
    executed by the provider, such as a web search. It is reported because it is billed.
    """

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Tokens of one request.

    `prompt` includes `cached` and `cache_written`; `completion` includes `reasoning`. A stream with
    a repeated attempt may contain several reports; they are added up.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0


TOKENS: Final = tuple(part.name for part in fields(UsageReport))  # The names of the token counts.


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageExtra:
    """Fields that are sent back with the answer to the provider `origin`: see AssistantMessage.

    Sent once, at the end of the answer.
    """

    origin: str
    fields: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRead:
    """How much of the prompt the model has read, if its server reports it. Units: tokens.

    `loading`: nothing yet, since the server is still loading the model.
    """

    done: int
    total: int
    loading: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end of a complete answer. Always the last chunk; without it the stream raises."""

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
    """Options of a request. None: the provider's default."""

    max_tokens: int | None = None
    temperature: float | None = None
    tool_choice: Literal["auto", "none", "required"] = "auto"


DEFAULT_OPTIONS = ModelOptions()


class LLMProvider(Protocol):
    """A language model. `context_window`: tokens of prompt and answer together."""

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
        """Yields the answer in pieces, ending with `Finished`. Close it (`aclosing`) to stop early.

        Failed attempts are repeated only while no part of an answer was yielded. Raises:
        ModelError.
        """
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The names of the models that a server offers, and the context window in tokens, if known."""

    models: tuple[str, ...]
    window: int | None


@runtime_checkable
class LearnsWindow(Protocol):
    """A provider whose server may report the size of the context window."""

    async def facts(self) -> ServerFacts:
        """Asks the server for its models. Raises: ModelError."""
        ...

    async def learn_window(self) -> None:
        """Asks the server once, for a short time, and then updates `context_window`. Does not
        raise.
        """
        ...


def add_usage(one: UsageReport | None, other: UsageReport) -> UsageReport:
    """Returns the sum of two reports."""
    if one is None:
        return other
    return UsageReport(**{name: getattr(one, name) + getattr(other, name) for name in TOKENS})


def clean(text: str) -> str:
    """Returns the text with the halves of surrogate pairs joined, and U+FFFD for each single half,
    which UTF-8 cannot encode.
    """
    return (
        text
        if is_storable(text)
        else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


def is_json(text: str) -> bool:
    """Returns whether the text is exactly one JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def readable_arguments(call: ToolCall) -> str:
    """Returns the arguments of a call as a JSON object, also if the model wrote something else."""
    text = call.arguments.strip() or "{}"
    if read_object(text) is not None:
        return clean(text)
    return json.dumps({UNREADABLE: clean(call.arguments)}, ensure_ascii=False)


def free_id(call_id: str, used: Container[str]) -> str:
    """Returns the id of a call, with a suffix if it is in `used`."""
    base = call_id or "call"
    candidate = base
    again = 1
    while candidate in used:
        again += 1
        candidate = f"{base}_{again}"
    return candidate


def is_stable(message: Message) -> bool:
    """Returns whether a message is an instruction that is the same in every call of a thread."""
    return isinstance(message, SystemMessage) and message.stable
