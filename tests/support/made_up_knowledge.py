"""Knowledge graphs made up by rule, in forms that `nodius eval` documents: passages and triples.

`python -m tests.support.made_up_knowledge FOLDER` writes `passages.json`, asked in two hops as
2Wiki is, and `triples.txt`, asked in one to three hops as MetaQA is: `questions-N.txt` in such
words as MetaQA's, `other-words-N.txt` in words that no label has. All names are invented: no
model knows them.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FIRST = (
    *("ba", "cor", "dre", "el", "fa", "gul", "hin", "jo"),
    *("kas", "lu", "mer", "no", "os", "pri", "ru", "sta"),
)
LAST = ("bert", "dan", "fel", "gar", "lin", "mar", "nel", "rick", "son", "tov", "vane", "wick")
GENRES = ("thriller", "comedy", "drama", "western", "musical")

HOPS: dict[int, Sequence[tuple[str, str, tuple[str, ...]]]] = {
    1: (
        ("who directed the movie [{}]", "who made the picture [{}]", ("directed_by",)),
        ("which movies did [{}] star in", "which pictures did [{}] play in", ("-starred_actors",)),
        ("what is the release year of [{}]", "when did [{}] come out", ("release_year",)),
        ("who wrote the movie [{}]", "who penned [{}]", ("written_by",)),
    ),
    2: (
        (
            "who wrote the movies directed by [{}]",
            "who penned the pictures that [{}] made",
            ("-directed_by", "written_by"),
        ),
        (
            "who starred in movies directed by [{}]",
            "who played in pictures by the maker [{}]",
            ("-directed_by", "starred_actors"),
        ),
        (
            "which movies share a director with [{}]",
            "which pictures are by the same maker as [{}]",
            ("directed_by", "-directed_by"),
        ),
        (
            "what genres are the movies starred by [{}]",
            "what sort of pictures did [{}] appear in",
            ("-starred_actors", "has_genre"),
        ),
    ),
    3: (
        (
            "who wrote movies that share actors with [{}]",
            "who penned pictures with the same cast as [{}]",
            ("starred_actors", "-starred_actors", "written_by"),
        ),
        (
            "what are the release years of movies that share directors with [{}]",
            "when did the pictures by the maker of [{}] come out",
            ("directed_by", "-directed_by", "release_year"),
        ),
        (
            "what are the genres of movies that share directors with [{}]",
            "what sort are the pictures by the maker of [{}]",
            ("directed_by", "-directed_by", "has_genre"),
        ),
    ),
}
"""By how many steps they take, in two wordings; a relation with a minus is walked
from its object.
"""

Triple = tuple[str, str, str]


class Names:
    """Invents names, each once."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._taken: set[str] = set()

    def new(self, words: int) -> str:
        while True:
            rng = self._rng
            name = " ".join(
                (rng.choice(FIRST) + rng.choice(FIRST) + rng.choice(LAST)).title()
                for _ in range(words)
            )
            if name not in self._taken:
                self._taken.add(name)
                return name


def made_triples(films: int, seed: int = 1) -> list[Triple]:
    """Return facts about so many films and the people who made them."""
    rng = random.Random(seed)
    names = Names(rng)
    people = [names.new(2) for _ in range(films)]
    facts: list[Triple] = []
    for _ in range(films):
        film = names.new(rng.choice((1, 2)))
        facts += [
            (film, "directed_by", rng.choice(people[: films // 4])),
            (film, "written_by", rng.choice(people)),
            *((film, "starred_actors", actor) for actor in rng.sample(people[films // 2 :], 3)),
            (film, "release_year", str(rng.randint(1930, 2009))),
            (film, "has_genre", rng.choice(GENRES)),
        ]
    return list(dict.fromkeys(facts))


def triple_questions(
    facts: Sequence[Triple], hops: int, count: int, *, other_words: bool = False, seed: int = 2
) -> list[str]:
    """Return lines of a question with its [topic], a tab, and all answers."""
    there: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for subject, relation, thing in facts:
        there[subject, relation][thing] = None
        there[thing, f"-{relation}"][subject] = None
    rng = random.Random(seed)
    lines = dict[str, None]()
    for _ in range(50 * count):
        *wordings, steps = rng.choice(HOPS[hops])
        asked = wordings[other_words]
        topic = rng.choice(sorted(name for name, relation in there if relation == steps[0]))
        found = [topic]
        for step in steps:
            found = list(
                dict.fromkeys(end for name in found for end in there.get((name, step), ()))
            )
        answers = [name for name in found if name != topic]
        if answers:
            lines[f"{asked.format(topic)}\t{'|'.join(answers)}"] = None
        if len(lines) == count:
            break
    return list(lines)


def made_passages(films: int, questions: int, seed: int = 3) -> dict[str, Any]:
    """Return passages about films, people and towns, and questions that need two passages each."""
    rng = random.Random(seed)
    names = Names(rng)
    towns = [names.new(1) for _ in range(max(2, films // 4))]
    people = {names.new(2): rng.choice(towns) for _ in range(max(2, films // 2))}
    passages: list[dict[str, Any]] = []
    facts: list[Triple] = []

    def passage(title: str, text: str, *mentions: str) -> str:
        key = f"p{len(passages)}"
        passages.append({"id": key, "title": title, "text": text, "mentions": [title, *mentions]})
        return key

    for town in towns:
        passage(
            town, f"{town} is a town with a {rng.choice(('mill', 'harbour', 'fair'))} and a school."
        )
    keys = {
        person: passage(
            person, f"{person} grew up in {town} and studied {rng.choice(GENRES)} there.", town
        )
        for person, town in people.items()
    }
    facts += [(person, "born in", town) for person, town in people.items()]
    asked: list[dict[str, Any]] = []
    for _ in range(films):
        film = names.new(2)
        person = rng.choice(list(people))
        key = passage(film, f"{film} is a {rng.choice(GENRES)} directed by {person}.", person)
        facts.append((film, "directed by", person))
        text = rng.choice(
            ("From where does the maker of {} come?", "Which home has whoever shot {}?")
        )
        asked.append({"question": text.format(film), "passages": [key, keys[person]]})
    return {"passages": passages, "facts": facts, "questions": asked[:questions]}


def write(folder: Path, films: int = 210, questions: int = 100) -> None:
    """Write all files. About two and a half entities a film."""
    (folder / "passages.json").write_text(
        json.dumps(made_passages(films, questions)), encoding="utf-8"
    )
    facts = made_triples(films)
    (folder / "triples.txt").write_text("\n".join(map("|".join, facts)), encoding="utf-8")
    for hops in HOPS:
        for name, other in (("questions", False), ("other-words", True)):
            lines = triple_questions(facts, hops, questions, other_words=other)
            (folder / f"{name}-{hops}.txt").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
