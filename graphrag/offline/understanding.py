"""Understands what is wanted of a message: alone, or as the answer to a question of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from graphrag.offline.commands import read_command
from graphrag.offline.conversation import Conversation
from graphrag.offline.forms import spoken
from graphrag.offline.intents import DescribeNode, Intent, Search
from graphrag.offline.phrases import PHRASES
from graphrag.offline.questions import MAX_QUERY, read_question
from graphrag.offline.wording import MAX_CHARS, Mention, Wording, read_wording

MAX_NAME_WORDS = 3

_ASKED = [
    re.compile("^" + re.escape(text).replace(re.escape("{name}"), "(?P<name>`[^`]+`)"), re.MULTILINE)
    for name in ("several_nodes", "near_nodes")
    for text in PHRASES[name].values()
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """What is wanted. `meant`: what stands for a name, as it was shown, that had not been clear."""

    intent: Intent
    meant: Mapping[str, str] = field(default_factory=dict[str, str])


def understand(conversation: Conversation) -> Understood:
    """Return what the last message wants.

    A message that is but a name answers the question which node is meant, where that was asked; then
    what was asked for before goes on with it. Else the node is to be described.
    """
    wording = conversation.question
    intent = _intent(wording)
    name = _bare_name(wording)
    if not isinstance(intent, Search) or name is None or intent.query != wording.original.strip():
        return Understood(intent=intent)
    asked = {found["name"] for form in _ASKED for found in form.finditer(conversation.last_answer)}
    before = _intent(read_wording(conversation.last_question))
    if len(asked) == 1 and not isinstance(before, Search):
        return Understood(intent=before, meant={asked.pop(): name.text})
    return Understood(intent=DescribeNode(node=name))


def _intent(wording: Wording) -> Intent:
    if len(wording.folded) > MAX_CHARS:
        return Search(query=wording.original.strip()[:MAX_QUERY])
    said = spoken(wording)
    return read_command(said) or read_question(said)


def _bare_name(wording: Wording) -> Mention | None:
    """Return the message as a name, where it can be one."""
    found = re.compile(r"(?P<n>.*)", re.DOTALL).fullmatch(wording.folded)
    mention = wording.mention(found, "n") if found else None
    if mention is None or "?" in wording.folded:
        return None
    return mention if mention.quoted or len(mention.text.split()) <= MAX_NAME_WORDS else None
