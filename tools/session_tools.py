"""The tools that control the session: ask the person a question, finish a run, renew embeddings.
They do not change a graph.

The first two only validate the arguments and return them as `data`; the agent carries them out.
Each kind of question is one class: its fields are the tool's parameters, and `card` is the form
shown by clients.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from tools.base import Tool, ToolArguments, ToolContext, ToolResult
from tools.toon import encode

QUESTIONS = "questions"
"""The feature of clients that can show questions."""

MAX_ANSWER = 4_000

Response = str | bool
"""The answer of a person: an option or a text, or True or False for yes or no."""


class WrongResponse(ValueError):
    """Raised when a question does not accept an answer. `allowed` describes the accepted ones."""

    def __init__(self, *, allowed: str) -> None:
        self.allowed = allowed
        super().__init__(f"not an answer to this question; allowed: {allowed}")


class MultipleChoice(ToolArguments):
    """A question with several options. With `other`, the person may also write a text."""

    question: Annotated[str, Field(min_length=1, max_length=500)]
    options: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=2, max_length=8)
    ]
    other: Annotated[bool, Field(description="true: the person may also write an answer")] = False

    @field_validator("options")
    @classmethod
    def _different(cls, options: list[str]) -> list[str]:
        if len({option.strip().casefold() for option in options}) < len(options):
            raise ValueError("two options are the same")
        if not all(option.strip() for option in options):
            raise ValueError("an option is empty")
        return options

    @property
    def card(self) -> dict[str, Any]:
        return {
            "text": self.question,
            "responses": list(self.options),
            "freeText": MAX_ANSWER if self.other else 0,
        }


class Validation(ToolArguments):
    """A yes-or-no question."""

    message: Annotated[str, Field(min_length=1, max_length=500)]

    @property
    def card(self) -> dict[str, Any]:
        return {"text": self.message, "responses": [True, False], "freeText": 0}


MODULES: Mapping[str, type[MultipleChoice | Validation]] = {
    "MultipleChoice": MultipleChoice,
    "Validation": Validation,
}


class AskPerson(ToolArguments):
    """A question: its kind and the fields of that kind."""

    type: Literal["MultipleChoice", "Validation"]
    data: MultipleChoice | Validation

    @field_validator("data", mode="before")
    @classmethod
    def _of_its_type(cls, value: Any, info: ValidationInfo) -> Any:
        module = MODULES.get(info.data.get("type", ""))
        # Validated here so that its errors have a location under `data`.
        return value if module is None else module.model_validate(value)

    @property
    def card(self) -> dict[str, Any]:
        """The form shown by clients: `text`, the offered `responses`, and the maximum length of
        `freeText` in characters (0 if not allowed).
        """
        return self.data.card

    @property
    def document(self) -> dict[str, Any]:
        """The question as it is stored and sent."""
        return self.model_dump(by_alias=True)

    def check(self, response: Response) -> None:
        """Checks an answer. Raises: WrongResponse if the question does not accept it."""
        card = self.card
        options = card["responses"]
        if any(type(option) is type(response) and option == response for option in options):
            return
        if isinstance(response, str) and response.strip() and len(response) <= card["freeText"]:
            return
        shown = [
            "yes" if option is True else "no" if option is False else repr(option)
            for option in options
        ]
        free = [f"a text of 1 to {card['freeText']} characters"] if card["freeText"] else []
        raise WrongResponse(allowed=", ".join([*shown, *free]))


async def _run(arguments: AskPerson, _: ToolContext) -> ToolResult:
    return ToolResult(text="", data=arguments)


ASK_PERSON = Tool(
    name="ask_person",
    description=(
        "Ask the person one question when you cannot go on without their choice; the turn waits for it."
        " Call it alone. Not to have a change approved: proposals are decided by themselves."
    ),
    arguments=AskPerson,
    run=_run,
    example={
        "type": "MultipleChoice",
        "data": {
            "question": "Which of the two checks do you mean?",
            "options": ["Check amount", "Check date"],
        },
    },
    sessions=frozenset({"chat"}),
    feature=QUESTIONS,
    alone=True,
)


MAX_REPORT = 4_000


class FinishAutomation(ToolArguments):
    """The result of a run. `report` is Markdown."""

    outcome: Annotated[
        Literal["ok", "findings", "failed"],
        Field(
            description="ok: nothing to report; findings: something was found or proposed; failed: not done"
        ),
    ]
    report: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_REPORT,
            description="What was looked at, found and proposed",
        ),
    ]


async def _finish(arguments: FinishAutomation, _: ToolContext) -> ToolResult:
    return ToolResult(text=f"Finished: {arguments.outcome}.", data=arguments)


FINISH_AUTOMATION = Tool(
    name="finish_automation",
    description=(
        "End this run with a report for the people who read it later. Call it once, when everything is read"
        " and proposed; nothing follows it."
    ),
    arguments=FinishAutomation,
    run=_finish,
    example={
        "outcome": "findings",
        "report": "Two nodes are not reachable. I proposed to connect them.",
    },
    sessions=frozenset({"automation"}),
)


Renew = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Queues missing and outdated embeddings of a graph. Returns `nodes`, `missing`, `queued` and
`model`.
"""


class RefreshEmbeddings(ToolArguments): ...


def refresh_embeddings(renew: Renew) -> Tool[RefreshEmbeddings]:
    """Returns the tool that renews embeddings. It changes only vectors."""

    async def run(_: RefreshEmbeddings, context: ToolContext) -> ToolResult:
        facts = dict(await renew(context.graph_key))
        done = "made in the background" if facts.get("queued") else "left as they are"
        text = f"{encode(facts)}\nVectors that are missing, or of an older text of their node, are {done}."
        return ToolResult(text=text, data=facts)

    return Tool(
        name="refresh_embeddings",
        description="Has missing and outdated embeddings of the graph renewed; says how many are missing.",
        arguments=RefreshEmbeddings,
        run=run,
        sessions=frozenset({"automation"}),
    )


SESSION_TOOLS: tuple[Tool[Any], ...] = (ASK_PERSON, FINISH_AUTOMATION)
