"""Scores the text of an answer against the facts of its case and the graph, without a model.

An answer counts as invented if it contains a forbidden fact, or claims an edge that the graph does
not have: an arrow between two nodes, or "X leads to Y" without a path from X to Y.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from datasources.text import fold
from graphrag.agent.claims import arrows, false_edges
from graphrag.evaluation.answer_cases import AskedQuestion, CaseGraph, Fact, Pair
from languages.reading import alternatives

Verdict = Literal["right", "partly", "wrong", "invented"]

_MARKUP = re.compile(r"[`*\"'“”‘’«»\\]|\[\[|\]\]")
_REFERENCE = re.compile(r"\{\{node:([^{}]*)\}\}")
_SPACE = re.compile(r"\s+")
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NO = alternatives("connections", "no")
_DENIES = re.compile(rf"^\W*{_NO}(?=\W*$|\s*[,;:–—-])|{alternatives('connections', 'denies')}")
_YES = alternatives("connections", "yes")
_AFFIRMS = re.compile(rf"^\W*{_YES}\b|\b{alternatives('connections', 'affirms')}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredAnswer:
    """The verdict on an answer, with its `missing` facts and its `invented` claims."""

    verdict: Verdict
    missing: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()


def score_answer(text: str, question: AskedQuestion, graph: CaseGraph) -> ScoredAnswer:
    """Returns the verdict on an answer: right with all facts, partly with some, wrong with none or
    without text.
    """
    plain = normalize(text)
    missing = [_shown(fact) for fact in question.facts if not has_fact(plain, fact, graph)]
    invented = [fact for fact in question.must_not if has_fact(plain, fact, graph)]
    invented += [f"{source} → {target}" for source, target in false_edges(text, graph.named)]
    expected = len(question.facts)
    if question.connected is not None:
        expected += 1
        claim = _says_connected(text, question.connected, graph)
        pair = " → ".join(question.connected)
        if claim and not graph.has_edge(question.connected):
            invented.append(pair)
        elif claim != graph.has_edge(question.connected):
            missing.append(pair)
    if not plain:
        return ScoredAnswer(verdict="wrong", missing=tuple(missing))
    if invented:
        return ScoredAnswer(verdict="invented", missing=tuple(missing), invented=tuple(invented))
    verdict = "right" if not missing else "partly" if len(missing) < expected else "wrong"
    return ScoredAnswer(verdict=verdict, missing=tuple(missing))


def normalize(text: str) -> str:
    """Returns a text in lower case and on one line, without quotes, emphasis, escapes and the
    braces of node references.
    """
    return _SPACE.sub(" ", _MARKUP.sub("", _REFERENCE.sub(r"\1", text))).casefold().strip()


def has_fact(plain: str, fact: Fact, graph: CaseGraph | None = None) -> bool:
    """Returns whether a normalized text contains a fact as whole words. A node's key counts as its
    name.
    """
    texts = [fact] if isinstance(fact, str) else list(fact)
    if graph is not None:
        texts += [key for text in texts for key in graph.keys(text)]
    return any(_contains(plain, normalize(text)) for text in texts)


def _contains(plain: str, fact: str) -> bool:
    if fact.isdigit() and int(fact) < len(_NUMBERS) and _contains(plain, _NUMBERS[int(fact)]):
        return True
    if not fact:
        return False
    # 10 is neither in -10 nor in 1.10 or 10.5, and "fetch" is not in "prefetch".
    before = r"(?<![\w.-])" if fact[0].isdigit() else r"(?<!\w)" if fact[0].isalnum() else ""
    after = r"(?!\w|\.\d)" if fact[-1].isdigit() else r"(?!\w)" if fact[-1].isalnum() else ""
    return re.search(f"{before}{re.escape(fact)}{after}", plain) is not None


def _says_connected(text: str, pair: Pair, graph: CaseGraph) -> bool | None:
    """Returns whether an answer says that two nodes are connected; None if it does not say. An
    arrow from the first to the second counts as yes.
    """
    claim = says_connected(text)
    ends = [graph.keys(name) for name in pair]
    named = graph.named
    drawn_arrows = ([named.keys[name] for name in arrow] for arrow in arrows(text, named))
    is_drawn = any(source & ends[0] and target & ends[1] for source, target in drawn_arrows)
    return True if claim is None and is_drawn else claim


def says_connected(text: str) -> bool | None:
    """Returns whether an answer says yes (True) or no (False); None if it says neither.

    The first sentence with either decides.
    """
    for sentence in re.split(r"[.!?](?:\s|$)|\n", fold(normalize_lines(text))):
        if _DENIES.search(sentence):
            return False
        if _AFFIRMS.search(sentence):
            return True
    return None


def normalize_lines(text: str) -> str:
    """Returns the non-empty lines of a text, each normalized."""
    return "\n".join(line for line in map(normalize, text.splitlines()) if line)


def _shown(fact: Fact) -> str:
    return fact if isinstance(fact, str) else " or ".join(fact)
