"""What the messages of a conversation say about its current turn, and about changes of the graph."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from datasources.text import fold
from graphrag.agent.history import calls_of, is_context
from graphrag.llm.base import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage

RECENT = 3
"""Messages of the person that are looked at: `and now the other one` means what was asked before."""

_LOOKED_AT_CHARS = 2_000
_CHANGES = re.compile(
    r"\b(?:add|creat|delet|remov|connect|link|wire|renam|chang|modif|updat|edit|set|mov|insert|replac|fix"
    r"|correct|repair|improv|refactor|tid|arrang|reorgani|layout|lay out|align|split|merg|duplicat|copy|copie"
    r"|swap|enabl|disabl|put|make|build|implement|appl|convert|writ|increas|decreas|rais|lower|undo|clean|drop"
    r"|attach|detach|disconnect|configur|adjust|turn|switch|extend|propos|ajout|cree|supprim|effac|enlev|retir"
    r"|reli|branch|debranch|renomm|met|mis|deplac|boug|inser|remplac|corrig|repar|amelior|rang|dispos"
    r"|dupliqu|invers|activ|desactiv|fais|faire|construi|ecri|augment|dimin|annul|nettoi|ajust|decoup|fusionn)"
)
_READS = re.compile(
    r"(?:\S+ ){0,3}?(?:what|which|who|where|when|why|how|is|are|does|do|tell|explain|describe|show|list|find"
    r"|summari[sz]e|search|count|que|qu'\w+|quels?|quelles?|quoi|qui|ou|quand|pourquoi|comment|combien|est-ce"
    r"|explique[rz]?|decri[rstvez]+|montre[rz]?|liste[rz]?|trouve[rz]?|resume[rz]?|cherche[rz]?)\b"
)

_DONE = (
    r"(?:added|created|deleted|removed|renamed|connected|linked|moved|updated|changed|modified|replaced|inserted"
    r"|fixed|corrected|disconnected|reorgani[sz]ed|rearranged|configured|duplicated|applied|edited)"
)
_FAIT = (
    r"(?:ajoute|cree|supprime|efface|retire|enleve|renomme|relie|connecte|deplace|modifie|mis(?:e|es)? a jour"
    r"|change|remplace|insere|corrige|configure|reorganise|duplique|applique)(?:e|s|es)?"
)
_CLAIMS = re.compile(
    rf"\b(?:i|we)(?:['’]ve| have)?(?: (?:now|just|also|already|successfully))* {_DONE}\b"
    rf"|\bj['’](?:y )?(?:l['’])?ai(?: (?:bien|maintenant|deja))* {_FAIT}\b"
)
_CLAIMS_WHEN_ASKED = re.compile(
    rf"^\W*(?:done|all set|c['’]est fait|voila qui est fait)\b"
    rf"|\b(?:has|have|is|are)(?: (?:been|now|successfully))+ {_DONE}\b|\bsuccessfully {_DONE}\b"
    rf"|\b(?:a|ont)(?: bien)? ete(?: bien)? {_FAIT}\b|\b(?:est|sont) (?:maintenant|desormais) {_FAIT}\b"
)


def conversation_asks_for_change(messages: Sequence[Message]) -> bool:
    """Return whether one of the last messages may ask for a change, or a change was proposed before."""
    if any(call.name.startswith("propose_") for call in calls_of(messages)):
        return True
    asked = [message.content for message in messages if isinstance(message, UserMessage)]
    return any(asks_for_change(text) for text in asked[-RECENT:])


def asks_for_change(text: str) -> bool:
    """Return False only for what is plainly a question, in English or French."""
    plain = _plain(text)
    return bool(_CHANGES.search(plain)) or len(text) > _LOOKED_AT_CHARS or not _READS.match(plain)


def claims_change(answer: str, asked: str) -> bool:
    """Return whether an answer says, in English or French, that something was changed just now."""
    plain = _plain(answer)
    return bool(_CLAIMS.search(plain) or (_CLAIMS_WHEN_ASKED.search(plain) and asks_for_change(asked)))


def _plain(text: str) -> str:
    return fold(text[:_LOOKED_AT_CHARS])


class ConversationView:
    """Reads the messages of a turn; who has them gives `messages`, and whether outcomes were just added."""

    __slots__ = ()
    messages: list[Message]
    has_outcomes: bool

    @property
    def opening(self) -> list[Message]:
        """The context and message that the turn began with."""
        last = max((i for i, m in enumerate(self.messages) if isinstance(m, UserMessage)), default=0)
        return [m for m in self.messages[max(0, last - 1) : last + 1] if is_context(m) or not _is_system(m)]

    @property
    def last_step(self) -> list[ToolMessage]:
        """The answers to the calls of the last step, if nothing was said since."""
        after = itertools.takewhile(
            lambda m: not isinstance(m, UserMessage | AssistantMessage), reversed(self.messages)
        )
        return [message for message in after if isinstance(message, ToolMessage)]

    @property
    def proposed(self) -> bool:
        """Whether a change was proposed, or its outcome added, since the person's last message."""
        last = max((i for i, m in enumerate(self.messages) if isinstance(m, UserMessage)), default=0)
        return self.has_outcomes or any(
            isinstance(message, ToolMessage) and message.name.startswith("propose_") and not message.is_error
            for message in self.messages[last:]
        )

    @property
    def asked(self) -> str:
        """The person's last message."""
        said = (message.content for message in reversed(self.messages) if isinstance(message, UserMessage))
        return next(said, "")

    @property
    def asks_for_change(self) -> bool:
        """Whether the person may want the graph changed."""
        return conversation_asks_for_change(self.messages)

    @property
    def retrieved(self) -> tuple[str, ...]:
        """Keys of the nodes that were retrieved for the person's last message."""
        asked = (message for message in reversed(self.messages) if isinstance(message, UserMessage))
        return next((message.retrieved for message in asked), ())


def _is_system(message: Message) -> bool:
    return isinstance(message, SystemMessage)
