"""What a caller does, as a script in YAML: says, waits, interrupts, presses keys, and expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import orjson
from pydantic import Field, ValidationError, model_validator

from graphrag.agent.thread_agent import EndReason
from graphrag.agents.loading import read_document
from graphrag.simulator.minds import CallsTool, Item, Mind, Reply, Says, words_of
from tools.http.model import DocumentPart
from tools.http.problems import DocumentProblem

MAX_STEPS = 200


class ScriptReply(DocumentPart):
    """One answer of the model's double, where rules are not to answer: what it says, or calls."""

    says: str | None = Field(default=None, min_length=1, max_length=2000)
    calls: str | None = Field(default=None, min_length=1, max_length=64)
    arguments: dict[str, Any] = Field(default={})

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.says is None) == (self.calls is None):
            raise ValueError("write either says or calls")
        return self

    def made(self) -> Says | CallsTool:
        """Return it as the double's mind gives it."""
        if self.calls is None:
            return Says(self.says or "")
        return CallsTool(self.calls, orjson.dumps(self.arguments).decode())


class Expected(DocumentPart):
    """What is to be found in the call. `words`: the agent says them; `tools`: called with success.

    `sources`: keys of nodes an answer rests on. `approval`: what became of the call's proposals.
    """

    tool: str | None = None
    words: list[str] = Field(default=[], max_length=50)
    outcome: str | None = None
    reason: EndReason | None = None
    sources: list[str] = Field(default=[], max_length=50)
    approval: Literal["pending", "applied", "rejected"] | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"write at least one of {', '.join(Expected.model_fields)}")
        return self


class CallStep(DocumentPart):
    """One thing a caller does; exactly one of `say`, `wait`, `dtmf`, `decide`,
    `hangup` and `expect`.

    `wav`: a file that is played for the words of `say`. `interrupt_after_s`: they are said when
    the agent has been heard for so long. `wait`: seconds, or until the agent has answered, or
    has made a proposal.
    `decide`: what a reviewer does about it meanwhile. `replies`: the double's answers to it,
    or to `say`.
    """

    say: str | None = Field(default=None, min_length=1, max_length=1000)
    wav: str | None = Field(default=None, min_length=1, max_length=1000)
    interrupt_after_s: float | None = Field(default=None, ge=0, le=60)
    replies: list[ScriptReply] = Field(default=[], max_length=20)
    wait: float | Literal["answer", "proposal"] | None = None
    dtmf: str | None = Field(default=None, pattern=r"^[0-9*#A-D]{1,40}$")
    decide: Literal["approve", "reject"] | None = None
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
        if self.replies and self.say is None and self.decide is None:
            raise ValueError("replies belong to a say or a decide")
        if isinstance(self.wait, float | int) and not 0 <= self.wait <= 120:
            raise ValueError("wait from 0 to 120 seconds, or answer, or proposal")
        return self


ACTIONS = ("say", "wait", "dtmf", "decide", "hangup", "expect")


class CallScript(DocumentPart):
    """A caller. `caller`: their number, null where it is withheld. `api`: the demo API is
    served for them.

    `sample`: the sample agent that answers where none of its id is stored. `greeting`: what the
    double says first. `wait_s`: so long an answer is waited for.
    """

    name: str = Field(min_length=1, max_length=100)
    caller: str | None = Field(default="+33612345678", pattern=r"^\+[1-9][0-9]{5,14}$")
    language: str = Field(default="en", pattern=r"^[a-z]{2}(-[A-Z]{2})?$")
    api: Literal["demo"] | None = None
    sample: Literal["helpdesk", "incident-intake", "catalogue"] | None = None
    greeting: str | None = Field(default=None, min_length=1, max_length=600)
    wait_s: float = Field(default=20, ge=1, le=120)
    steps: list[CallStep] = Field(min_length=1, max_length=MAX_STEPS)

    @property
    def lines(self) -> list[str]:
        """What the caller says, in order."""
        return [step.say for step in self.steps if step.say is not None]


class InvalidScript(Exception):
    """A script cannot be played. `problems` say where and why, and what could stand there."""

    def __init__(self, named: str, problems: Sequence[DocumentProblem]) -> None:
        self.named, self.problems = named, tuple(problems)
        super().__init__(f"{named}: {len(self.problems)} errors")


def read_script(named: str, raw: bytes) -> CallScript:
    """Return a script of YAML or JSON. Raises: InvalidScript with all that is wrong."""
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
    """Return the script of somebody who says texts one after the other, each once the
    agent has answered.

    The second text interrupts the first answer where `barge_in_at_s` says when.
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
    """Return one problem for each place; a value that fits none of several forms is said once."""
    found: dict[str, list[str]] = {}
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
        found.setdefault(".".join(place), []).append(what)
    return [
        DocumentProblem(where=at, code="script", what="; or: ".join(what))
        for at, what in found.items()
    ]


class ScriptMind:
    """Answers the lines of a script as it says, in order; `otherwise` answers what it
    says nothing about.
    """

    def __init__(self, script: CallScript, otherwise: Mind) -> None:
        self._script = script
        self._otherwise = otherwise

    async def reply(self, instructions: str, items: Sequence[Item], tools: Sequence[Item]) -> Reply:
        greeting = self._script.greeting
        lines = self._script.lines
        is_first = not any(
            item.get("role") == "assistant" or words_of(item) in lines for item in items
        )
        if greeting is not None and is_first:
            return (Says(greeting),)
        step, answered = self._place(items)
        if step is not None and answered < len(step.replies):
            return (step.replies[answered].made(),)
        return await self._otherwise.reply(instructions, items, tools)

    def _place(self, items: Sequence[Mapping[str, Any]]) -> tuple[CallStep | None, int]:
        """Return the step that is to be answered, None for what the script does not know, and how
        many answers it has had. A note of the service belongs to the next decision.
        """
        left = [
            step for step in self._script.steps if step.say is not None or step.decide is not None
        ]
        last, answered = None, 0
        for item in items:
            role = item.get("role")
            if role in ("user", "system"):
                words = words_of(item)
                fits = [
                    s
                    for s in left
                    if (s.decide is not None if role == "system" else s.say == words)
                ]
                last = fits[0] if fits else None
                answered = 0
                if last is not None:
                    del left[: left.index(last) + 1]
            elif item.get("type") == "function_call" or role == "assistant":
                answered += 1
        return last, answered
