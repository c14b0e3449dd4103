"""Call scripts in YAML: what a caller says and does, and what is expected of the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Self, final

import orjson
from pydantic import Field, ValidationError, model_validator

from graphrag.agent.thread_agent import EndReason
from graphrag.agents.loading import read_document
from graphrag.simulator.minds import CallsTool, Item, Mind, Reply, Says, words_of
from tools.http.model import DocumentPart
from tools.http.problems import DocumentProblem

MAX_STEPS: Final = 200


class ScriptReply(DocumentPart):
    """A scripted answer of the Realtime double, used instead of rules: words or a tool call."""

    says: str | None = Field(default=None, min_length=1, max_length=2000)
    calls: str | None = Field(default=None, min_length=1, max_length=64)
    arguments: dict[str, Any] = Field(default={})

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.says is None) == (self.calls is None):
            raise ValueError("write either says or calls")
        return self

    def to_reply(self) -> Says | CallsTool:
        """Returns the answer as an item of a `Reply`."""
        if self.calls is None:
            return Says(self.says or "")
        return CallsTool(self.calls, orjson.dumps(self.arguments).decode())


class Expected(DocumentPart):
    """Expected facts of a call.

    `words`: spoken by the agent. `tool`: called with success. `sources`: keys of nodes on which an
    answer is based. `approval`: status of a proposal of the call. `transfers`: every attempt, as
    "sales busy". `told`: words read to somebody who answered a transfer.
    """

    tool: str | None = None
    words: list[str] = Field(default=[], max_length=50)
    outcome: str | None = None
    reason: EndReason | None = None
    sources: list[str] = Field(default=[], max_length=50)
    approval: Literal["pending", "applied", "rejected"] | None = None
    transfers: list[str] | None = Field(default=None, max_length=50)
    told: list[str] = Field(default=[], max_length=50)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"write at least one of {', '.join(Expected.model_fields)}")
        return self


class CallStep(DocumentPart):
    """One step of a caller: exactly one of the names in `ACTIONS`.

    `wav`: a file played for the words of `say`. `interrupt_after_s`: the words are spoken after the
    agent has been heard for this time. `wait`: seconds, or until the agent has answered or made a
    proposal. `decide`: decision of a reviewer about it. `returned`: until the caller is back with
    the agent, as nobody answered a transfer. `replies`: answers of the double to a `decide`, a
    `returned` or a `say`.
    """

    say: str | None = Field(default=None, min_length=1, max_length=1000)
    wav: str | None = Field(default=None, min_length=1, max_length=1000)
    interrupt_after_s: float | None = Field(default=None, ge=0, le=60)
    replies: list[ScriptReply] = Field(default=[], max_length=20)
    wait: float | Literal["answer", "proposal"] | None = None
    dtmf: str | None = Field(default=None, pattern=r"^[0-9*#A-D]{1,40}$")
    decide: Literal["approve", "reject"] | None = None
    returned: Literal[True] | None = None
    hangup: Literal[True] | None = None
    expect: Expected | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in ACTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"write one of {', '.join(ACTIONS)} in a step, not {len(given)}")
        also = {"wav", "interrupt_after_s"} & self.model_fields_set
        if also and self.say is None:
            raise ValueError(f"{', '.join(sorted(also))} belong to a say")
        if self.replies and self.say is None and not self.is_noted:
            raise ValueError("replies belong to a say, a decide or a returned")
        if isinstance(self.wait, float | int) and not 0 <= self.wait <= 120:
            raise ValueError("wait from 0 to 120 seconds, or answer, or proposal")
        return self

    @property
    def is_noted(self) -> bool:
        """Whether the model gets a note of the service for the step."""
        return self.decide is not None or self.returned is not None


ACTIONS = ("say", "wait", "dtmf", "decide", "returned", "hangup", "expect")


class CallScript(DocumentPart):
    """A script of a call.

    `caller`: number of the caller, null if it is withheld. `api`: serves the demo API during the
    call. `sample`: the sample agent that answers if no agent with its id is stored. `greeting`:
    first words of the double. `wait_s`: longest wait for an answer. `dials`: how each attempt to
    transfer the caller ends, in order; without a further one nobody answers.
    """

    name: str = Field(min_length=1, max_length=100)
    caller: str | None = Field(default="+33612345678", pattern=r"^\+[1-9][0-9]{5,14}$")
    language: str = Field(default="en", pattern=r"^[a-z]{2}(-[A-Z]{2})?$")
    api: Literal["demo"] | None = None
    sample: Literal["helpdesk", "incident-intake", "catalogue"] | None = None
    greeting: str | None = Field(default=None, min_length=1, max_length=600)
    wait_s: float = Field(default=20, ge=1, le=120)
    dials: list[Literal["answered", "busy", "no-answer", "failed"]] = Field(
        default=[], max_length=50
    )
    steps: list[CallStep] = Field(min_length=1, max_length=MAX_STEPS)

    @property
    def lines(self) -> list[str]:
        """The utterances of the caller, in order."""
        return [step.say for step in self.steps if step.say is not None]


class InvalidScript(Exception):
    """Raised for an invalid script. `problems` name the place, the reason and allowed values."""

    def __init__(self, named: str, problems: Sequence[DocumentProblem]) -> None:
        self.named, self.problems = named, tuple(problems)
        super().__init__(f"{named}: {len(self.problems)} errors")


def read_script(named: str, raw: bytes) -> CallScript:
    """Returns a script from YAML or JSON. Raises: InvalidScript with all problems."""
    read = read_document(raw)
    if read.document is None or read.problems:
        raise InvalidScript(named, read.problems)
    try:
        return CallScript.model_validate(read.document)
    except ValidationError as exc:
        raise InvalidScript(named, _problems(exc)) from None


def said_script(
    texts: Sequence[str], *, barge_in_at_s: float | None, language: str = "en"
) -> CallScript:
    """Returns a script that speaks each text after the agent has answered the one before.

    With `barge_in_at_s` the second text interrupts the first answer after this time.
    """
    steps = [CallStep(wait="answer")]
    for number, line in enumerate(texts):
        is_cut = number == 1 and barge_in_at_s is not None
        if number > 0 and not is_cut:
            steps.append(CallStep(wait="answer"))
        steps.append(CallStep(say=line, interrupt_after_s=barge_in_at_s if is_cut else None))
    steps += [CallStep(wait="answer"), CallStep(hangup=True)]
    return CallScript(name="said", language=language, wait_s=60, steps=steps)


def _problems(exc: ValidationError) -> list[DocumentProblem]:
    """Returns one problem for each place, with the errors of all alternatives joined."""
    errors: dict[str, list[str]] = {}
    for error in exc.errors(include_url=False):
        place = [str(part) for part in error["loc"]]
        place = [part for part in place if not part.startswith(("float", "literal", "list", "str"))]
        what = error["msg"].removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            parts = {"steps": CallStep, "expect": Expected, "replies": ScriptReply}
            owner = next(
                (parts[part] for part in reversed(place[:-1]) if part in parts), CallScript
            )
            what = f"{place[-1]} is no field here, but {', '.join(owner.model_fields)}"
        errors.setdefault(".".join(place), []).append(what)
    return [
        DocumentProblem(where=at, code="script", what="; or: ".join(what))
        for at, what in errors.items()
    ]


@final
class ScriptMind:
    """Answers by the replies of a script. `otherwise` answers where the script has no reply."""

    def __init__(self, script: CallScript, otherwise: Mind) -> None:
        self._script = script
        self._otherwise = otherwise

    async def reply(self, instructions: str, items: Sequence[Item], tools: Sequence[Item]) -> Reply:
        """Returns the items of a response. Raises: ModelError."""
        scripted = scripted_reply(self._script, items)
        if scripted is not None:
            return scripted
        return await self._otherwise.reply(instructions, items, tools)


def scripted_reply(script: CallScript, items: Sequence[Item]) -> Reply | None:
    """Returns the items of a response to a conversation, None where the script has no reply."""
    lines = script.lines
    is_first = not any(item.get("role") == "assistant" or words_of(item) in lines for item in items)
    if script.greeting is not None and is_first:
        return (Says(script.greeting),)
    step, answered = _place(script, items)
    if step is not None and answered < len(step.replies):
        return (step.replies[answered].to_reply(),)
    return None


def _place(script: CallScript, items: Sequence[Mapping[str, Any]]) -> tuple[CallStep | None, int]:
    """Returns the step to answer, None for unscripted input, and its number of answers so far.

    A note of the service belongs to the next decision, or to the caller's next return.
    """
    left = [step for step in script.steps if step.say is not None or step.is_noted]
    last, answered = None, 0
    for item in items:
        role = item.get("role")
        if role in ("user", "system"):
            words = words_of(item)
            fits = [s for s in left if (s.is_noted if role == "system" else s.say == words)]
            last = fits[0] if fits else None
            answered = 0
            if last is not None:
                del left[: left.index(last) + 1]
        elif item.get("type") == "function_call" or role == "assistant":
            answered += 1
    return last, answered
