"""Tasks that chat programs send to the chat's model: titles, tags, follow-up questions, search
queries.

They are not conversations about a graph: they are answered without tools, and only their cost is
stored. A message is a task only if it begins like the templates of these programs. A question that
Open WebUI wraps with documents (`Respond to the user query using the provided context`) is a
question.

Sources: Open WebUI's `DEFAULT_*_PROMPT_TEMPLATE` (0.3 to 0.11), LibreChat's title prompts (0.7, its
agents).
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from fastapi import Request

from graphrag.llm.base import Message, SystemMessage, UserMessage
from graphrag.llm.registry import OFFLINE
from server.channels.openai_answers import GivenMessage, usage
from server.requests import state_of
from server.workspaces import WorkspaceContext

_I = re.IGNORECASE | re.VERBOSE
_TASK = re.compile(
    r"""\s*(?:\#{1,4}\s*Task:?\s+
        (?:(?:Generate|Create|Suggest|Analyze|Write)\b|You\ are\ an\ autocompletion\ system
            |Based\ on\ the\ chat\ history)
    |Your\ task\ is\ to\ reflect\ the\ speaker's\ likely\ facial\ expression
    |Create\ a\ concise,\ 3-5\ word\ (?:title|phrase)
    |Here\ is\ the\ query:(?=.*as\ a\ title\ for\ the\ previous\ query)
    |(?:Please\ )?(?:Provide|generate|Write)\ an?\ concise,?\ (?:5-word-or-less\ )?title\ for
        \ (?:the|this)\ conversation
    |Detect\ user\ language\ and\ write\ in\ the\ same\ language\ an\ extremely\ concise\ title
    |Analyze\ this\ conversation\ and\ provide:\s+1\.\ The\ detected\ language)""",
    _I | re.DOTALL,
)
_HISTORY = re.compile(
    r"<chat_history>|^\#{1,4}\s*(?:Chat\ History|Output|Context|Guidelines):?", _I | re.MULTILINE
)
_RESULTS = re.compile(r'"(title|tags|follow_ups|queries|text|prompt|emoji)"\s*:')
_ASKED = re.compile(r"^(?:USER|Human|\|\|>User|User):\s*(.+)$", re.MULTILINE)
TITLE_WORDS = 5


def task_of(messages: Sequence[GivenMessage]) -> str | None:
    """Returns the text of a task, None for the question of a person.

    The task is the last message, or the instructions before the only message.
    """
    *before, last = messages
    texts = [last.content]
    if all(one.role in ("system", "developer") for one in before):
        texts += [one.content for one in before]
    for text in texts:
        if (beginning := _TASK.match(text)) is None:
            continue
        if not beginning.group().lstrip().startswith("#") or _HISTORY.search(text, beginning.end()):
            return text
    return None


@dataclass(slots=True, kw_only=True)
class ClientTask:
    """One task and its answer, which is streamed in one piece."""

    place: WorkspaceContext
    messages: Sequence[GivenMessage]
    task: str
    text: str = ""
    usage: dict[str, int] = field(default_factory=lambda: usage(0, 0))
    response_id: str = field(default_factory=lambda: f"resp_task_{secrets.token_hex(12)}")

    async def pieces(self, request: Request) -> AsyncGenerator[str]:
        """Yields the answer. Raises: TooManyRequests, ModelError, UsageLimitReached."""
        state_of(request).limits.messages.spend(self.place.person.user_id)
        agent = self.place.agent
        if agent.provider.name == OFFLINE:
            self.text = _plain_answer(self.task)
        else:
            sent: list[Message] = [
                UserMessage(content=one.content)
                if one.role == "user"
                else SystemMessage(content=one.content)
                for one in self.messages
                if one.role in ("user", "system", "developer") and one.content.strip()
            ]
            self.text, used = await agent.answer_alone(sent, self.place.person)
            self.text = self.text.strip()
            self.usage = usage(used.prompt, used.completion)
        yield self.text


def _plain_answer(task: str) -> str:
    """Returns the answer without a model: a title of the first words, otherwise an empty result."""
    result = _RESULTS.search(task)
    kind = result[1] if result else "title"
    asked = _ASKED.search(task)
    title = " ".join((asked[1] if asked else "").strip(' "').split()[:TITLE_WORDS])
    if result is None:
        return title
    values = {
        "title": title,
        "tags": list[str](),
        "follow_ups": list[str](),
        "queries": list[str](),
    }
    return json.dumps({kind: values.get(kind, "")}, ensure_ascii=False)
