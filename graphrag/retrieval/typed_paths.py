"""Follows typed paths from nodes named in a question, over relations that match its words.

Independent of any store. A path is a start node that the question names and up to `STEPS`
relations, each an edge label and a direction. Each step uses a word that matches its relation. A
path is scored by the share of the question that it uses, reduced if it leads to many nodes. Its end
nodes get the score, so that an answer ranks above the nodes on the way to it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from datasources.links import TypedLink
from graphrag.retrieval.asked_words import ASKING, LEAST, SHARING, AskedWords, Relation, Strengths

STEPS = 3
MAX_SEQUENCES = 20
MAX_ENDS = 400
COST = 0.03  # of each step, so that a shorter path wins if a step matches weakly
INVERSE = 0.9  # factor for following an edge from its target to its source
ORDER = 0.8  # factor if the word of a later step is closer to the name than that of an earlier one
BACK = 0.9  # factor for a path that turns back to its start: it says nothing new about it
LEAST_SHARE = 0.5  # if the best path uses less of the question, it does not ask for a path
FEW_NODES = 100
WIDTH = 0.25  # share of its score that a path to all nodes loses


class _Sequence(NamedTuple):
    """A start and the relations followed so far: the words used (a bit mask) and the ends."""

    used: int
    score: float
    ends: frozenset[str]
    start: str
    passed: int
    width: int = 1
    last: Relation | None = None
    before: frozenset[str] = frozenset()
    distance: int = 0
    explained: bool = True


@dataclass(slots=True)
class _Walk:
    asked: AskedWords
    speaks: Strengths
    around: Mapping[str, Mapping[Relation, Sequence[str]]]
    masks: list[int] = field(init=False)
    sharing: int = field(init=False)
    most: list[float] = field(init=False)

    def __post_init__(self) -> None:
        places = self.asked.places
        named = self.asked.named
        self.masks = [
            sum(1 << j for j, p in enumerate(places) if n.first <= p < n.end) for n in named
        ]
        self.sharing = sum(
            1 << j for j, word in enumerate(self.asked.words) if word.stem in SHARING
        )
        rows = list(self.speaks.values())
        self.most = [
            max((row[j] for row in rows), default=0.0) for j in range(len(self.asked.words))
        ]

    def inside(self) -> int:
        """Returns the words that belong to names, as a bit mask."""
        inside = 0
        for mask in self.masks:
            inside |= mask
        return inside

    def share(self, sequence: _Sequence) -> float:
        """Returns the share of the question's names and other words that a sequence uses.

        Some unused words do not count: words about the whole graph, a second word for sharing, and
        question words for labels that do not exist.
        """
        named = sum(mask for t, mask in enumerate(self.masks) if sequence.passed >> t & 1)
        used = sequence.used
        idle = self.sharing & ~used if used & self.sharing else 0
        for j, word in enumerate(self.asked.words):
            if not used >> j & 1 and (
                0 < self.most[j] <= LEAST or (word.stem in ASKING and not self.most[j])
            ):
                idle |= 1 << j
        passed = sequence.passed.bit_count()
        others = len(self.asked.words) - (named | idle).bit_count()
        return (passed + (used & ~named).bit_count()) / (passed + others)

    def passed(self, sequence: _Sequence) -> set[str]:
        """Returns the named nodes on the path, which are no answers. The start may be an answer."""
        named = (n.keys for t, n in enumerate(self.asked.named) if sequence.passed >> t & 1)
        return {key for keys in named for key in keys} - {sequence.start}

    def begin(self) -> list[_Sequence]:
        return [
            _Sequence(self.masks[t], 1.0, frozenset([key]), key, 1 << t)
            for t, named in enumerate(self.asked.named)
            for key in named.keys
        ]

    def step(self, sequence: _Sequence) -> list[_Sequence]:
        """Returns the sequences with one more relation."""
        reached: dict[Relation, set[str]] = defaultdict(set)
        for key in sequence.ends:
            for relation, ends in self.around.get(key, {}).items():
                reached[relation].update(ends)
        longer_sequences: list[_Sequence] = []
        for relation, ends in reached.items():
            if turns := sequence.last == Relation(relation.label, not relation.forward):
                ends -= sequence.before - {sequence.start}  # a path turns back only to its start
            for used, gain, distance in self._uses(sequence, relation) if ends else ():
                longer = sequence._replace(
                    used=used,
                    score=sequence.score + gain * (1.0 if relation.forward else INVERSE) - COST,
                    width=max(sequence.width, len(ends)),
                    last=relation,
                    before=sequence.ends,
                    distance=max(distance, sequence.distance),
                    explained=used != sequence.used,
                )
                longer_sequences += self._split(longer, ends, turns=turns)
        return longer_sequences

    def _split(self, longer: _Sequence, ends: set[str], *, turns: bool) -> Iterator[_Sequence]:
        """Yields sequences for the ends of a step: other named nodes, the start, all others."""
        for t, named in enumerate(self.asked.named):
            through = ends.intersection(named.keys)
            if through and not (longer.passed >> t & 1 or longer.used & self.masks[t]):
                used = longer.used | self.masks[t]
                passed = longer.passed | 1 << t
                score = longer.score + 1.0
                hit = frozenset(through)
                yield longer._replace(used=used, passed=passed, score=score, ends=hit)
        if longer.start in ends:
            back = BACK if turns else 1.0
            yield longer._replace(score=longer.score * back, ends=frozenset([longer.start]))
        if others := frozenset(ends - {longer.start}):
            yield longer._replace(ends=others)

    def _uses(self, sequence: _Sequence, relation: Relation) -> Iterator[tuple[int, float, int]]:
        """Yields the words used after this step, its gain, and its word's distance from the name.

        Words closer to the name of the start are expected to be used first. Yields nothing if no
        word matches the relation.
        """
        row = self.speaks[relation]
        used = sequence.used
        places = self.asked.places
        free = [j for j in range(len(row)) if not used >> j & 1]
        best = max(free, key=lambda j: row[j], default=-1)
        gain = row[best] if best >= 0 else 0.0
        turns = sequence.last == Relation(relation.label, not relation.forward)
        if turns and sequence.before == frozenset([sequence.start]) and not used & self.sharing:
            shared = next((j for j in free if self.sharing >> j & 1), -1)
            if shared >= 0 and gain < 1.0:
                best = shared
                gain = 1.0
        if gain < LEAST:
            if turns and any(row[j] >= LEAST for j in range(len(row)) if used >> j & 1):
                # The word of the last step matches this one as well.
                yield used, 0.0, sequence.distance
            return
        used |= 1 << best
        distance = self._distance(sequence, places[best])
        if distance < sequence.distance:
            gain *= ORDER
        yield used, gain, distance
        if row[best] >= 1.0 and (others := self._others(row, used, best)):
            yield used | sum(1 << j for j in others), gain + len(others), distance

    def _others(self, row: Sequence[float], used: int, best: int) -> list[int]:
        """Returns further words of the question that belong to the same mention of a label."""
        stems = {self.asked.words[best].stem}
        others = list[int]()
        for j, word in enumerate(self.asked.words):
            if used >> j & 1 or row[j] < 1.0 or word.stem in stems:
                continue
            low, high = sorted((self.asked.places[j], self.asked.places[best]))
            follows = abs(j - best) == 1
            # An agent word between two words that are further apart separates two mentions.
            if not (follows and any(low < place < high for place in self.asked.agents)):
                stems.add(word.stem)
                others.append(j)
        return others

    def _distance(self, sequence: _Sequence, place: int) -> int:
        first = next(named for named in self.asked.named if sequence.start in named.keys)
        return first.first - place if place < first.first else place - first.end + 1


def possible_steps(asked: AskedWords, speaks: Strengths) -> int:
    """Returns the maximum number of steps, or 0 if no path can use `LEAST_SHARE` of the question.

    Each step uses one word, or several if they are in one label. Words without a match stay unused.
    """
    walk = _Walk(asked, speaks, {})
    name_words = walk.inside()
    other_words = [j for j in range(len(walk.most)) if not name_words >> j & 1]
    usable = [j for j in other_words if walk.most[j] >= LEAST or walk.sharing >> j & 1]
    idle = [j for j in other_words if not walk.most[j] and asked.words[j].stem in ASKING]
    names = len(asked.named)
    matching = sum(walk.most[j] > LEAST for j in other_words)
    has_label = asked.asks or max(walk.most) >= 1.0
    steps = min(
        STEPS if has_label else 1, len(usable) + (name_words.bit_count() if names > 1 else 0)
    )
    used = len(usable) if max(walk.most) >= 1.0 else min(steps, len(usable))
    unused = len(other_words) - len(usable) - len(idle) + max(0, matching - used)
    return steps if names + used >= LEAST_SHARE * (names + used + unused) else 0


def path_scores(
    asked: AskedWords, speaks: Strengths, links: Iterable[TypedLink], nodes: int
) -> dict[str, float]:
    """Returns the ends of paths with the share of the question that their best path uses.

    Best first. `nodes` is an estimate of the nodes in the graph: a path to many of them says
    little.
    """
    around: dict[str, dict[Relation, list[str]]] = defaultdict(lambda: defaultdict(list))
    forward = {relation.label: relation for relation in speaks if relation.forward}
    backward = {relation.label: relation for relation in speaks if not relation.forward}
    for source, target, label in links:
        if label in forward:
            around[source][forward[label]].append(target)
        if label in backward:
            around[target][backward[label]].append(source)
    walk = _Walk(asked, speaks, around)
    scale = math.log(max(nodes, FEW_NODES))
    scores: dict[str, float] = {}
    top, share = 0.0, 0.0
    sequences = walk.begin()
    for _ in range(STEPS):
        longer = [step for sequence in sequences for step in walk.step(sequence)]
        sequences = sorted(longer, key=lambda s: (-s.score, s.start, min(s.ends)))[:MAX_SEQUENCES]
        for sequence in sequences:
            if not sequence.explained:
                continue
            ends = sequence.ends - walk.passed(sequence)
            narrow = 1.0 - WIDTH * min(1.0, math.log(sequence.width) / scale)
            score = sequence.score * narrow
            if ends and score > top:
                top = score
                share = walk.share(sequence)
            for key in ends:
                scores[key] = max(score, scores.get(key, 0.0))
    if share < LEAST_SHARE:
        return {}
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return {key: score / top * share for key, score in best[:MAX_ENDS] if score > 0}
