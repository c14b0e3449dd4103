"""What patterns of questions and commands share: words of both languages and the way a form is tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphrag.offline.intents import Intent
from graphrag.offline.wording import Mention, Wording

QUOTE = "[\ue000-\uf8ff]"
NODE = r"(?:nodes?|noeuds?|steps?|etapes?|blocks?|blocs?)"
EDGE = r"(?:edges?|links?|connections?|wires?|arrows?|aretes?|liens?|connexions?|liaisons?|fleches?)"
GRAPH = r"(?:graphe?|workflow|flow|flux|pipeline|diagram(?:me)?|schema)"
SHEET = r"(?:sheets?|feuilles?|pages?)"
THE = r"(?:(?:the|this|that|an?|le|la|les|une?|cette|ce|cet) |l')*"
OF = r"(?:(?:of|for|in|from|on|de la|de|du|dans|sur) |de l'|d')"

_POLITE = re.compile(
    r"(?:(?:hi|hello|hey|bonjour|salut|please|ok|okay|now|then|and|so|et|alors|maintenant|ensuite|puis|svp"
    r"|stp"
    r"|s'il (?:te|vous) plait)\b[ ,!.]*"
    r"|(?:can|could|would|will) you (?:please |kindly )?|(?:i want|i would like|i'd like) (?:you )?to |let's "
    r"|(?:peux|pourrais|veux)[- ]tu |(?:pouvez|pourriez)[- ]vous |tu (?:peux|pourrais) "
    r"|vous (?:pouvez|pourriez) |est-ce que (?:tu peux|vous pouvez) |je (?:veux|voudrais|souhaite) "
    r"|j'aimerais |il faut )+"
)
_TAIL = re.compile(r"(?:[ ,.;:!?]|\b(?:please|thanks|thank you|stp|svp|merci|s'il (?:te|vous) plait)$)+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A wording and where, politeness taken off, its matter begins and ends."""

    wording: Wording
    start: int
    end: int

    @property
    def folded(self) -> str:
        return self.wording.folded[self.start : self.end]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A pattern that fits, and the parts of it as they were written."""

    wording: Wording
    found: re.Match[str]

    def mention(self, *names: str) -> Mention | None:
        """Return the first of these groups that took part, as a name."""
        known = self.found.re.groupindex
        tried = (self.wording.mention(self.found, name) for name in names if name in known)
        return next((mention for mention in tried if mention is not None), None)

    def text(self, name: str) -> str:
        """Return a group as it was written."""
        return self.wording.group(self.found, name) if name in self.found.re.groupindex else ""

    def word(self, name: str) -> str:
        """Return a group folded."""
        return (self.found[name] or "") if name in self.found.re.groupindex else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A pattern for the whole of a message and what it means; `build` may refuse with None."""

    pattern: re.Pattern[str]
    build: Callable[[Match], Intent | None]


def form(pattern: str, build: Callable[[Match], Intent | None]) -> Form:
    """Return a form; blanks in the pattern stand for themselves."""
    return Form(pattern=re.compile(pattern), build=build)


def spoken(wording: Wording) -> Spoken:
    """Return the matter of a message."""
    polite = _POLITE.match(wording.folded)
    start = polite.end() if polite else 0
    tail = _TAIL.search(wording.folded, start)
    end = tail.start() if tail else len(wording.folded)
    return Spoken(wording=wording, start=min(start, end), end=end)


def first_fit(said: Spoken, forms: Sequence[Form]) -> Intent | None:
    """Return what the first form means that fits the whole matter."""
    for tried in forms:
        found = tried.pattern.fullmatch(said.wording.folded, said.start, said.end)
        if found is not None:
            intent = tried.build(Match(wording=said.wording, found=found))
            if intent is not None:
                return intent
    return None
