"""Scores several ways of retrieving on the same questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from datasources.base import MutableGraphDataSource
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.evaluation import knowledge, workflows
from graphrag.evaluation.formats.knowledge_graph import Knowledge
from graphrag.evaluation.scoring import Scores
from graphrag.retrieval.retrieval_result import RetrievalOptions
from graphrag.retrieval.retriever import Retrieves

Ways = Mapping[str, RetrievalOptions]
# Opens a progress with a title; it yields a function of the work done and the whole work.
Progress = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
SECOND_LOOK = "with a second look"  # the default way, and the settings' model assesses its result
GRAPH, GRAPH_ALONE = "knowledge", "passages-alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalReport:
    """The scores of each way. `graphs`: the number of workflows, None for a knowledge graph."""

    scores: Mapping[str, Scores]
    about: str
    left_out: Sequence[str]
    graphs: int | None = None

    @property
    def reasons(self) -> Sequence[str]:
        """Why workflows and questions were left out; the questions are the same in each way."""
        *_, last = self.scores.values()
        return (*self.left_out, *last.left_out)

    def as_dict(self) -> dict[str, Any]:
        return {way: self._document(scores) for way, scores in self.scores.items()}

    def _document(self, scores: Scores) -> dict[str, Any]:
        document = {**scores.as_dict(), **scores.certainty()}
        if self.graphs is None:
            return {**document, "questions": scores.questions}
        tokens = None if scores.tokens is None else round(scores.tokens, 1)
        counts = {"queries": scores.questions, "graphs": self.graphs}
        return {**document, "tokens_per_context": tokens, **counts}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalRun:
    """Stores graphs in an empty workspace, asks the questions in each way, and scores the results.

    `second_look`: a retriever that is scored, too. `on_stored` is told the counts of a stored
    knowledge graph.
    """

    source: MutableGraphDataSource
    embedder: EmbeddingProvider | None
    retriever: Retrieves
    second_look: Retrieves | None
    progress: Progress
    on_stored: Callable[[str], None] = lambda _: None

    async def workflows(
        self, queries: Sequence[workflows.AnnotatedQuery], folder: Path, ways: Ways | None
    ) -> RetrievalReport:
        """Scores annotated questions about workflows. `ways` None: each part of hybrid retrieval.

        Raises: QueryFileError, SourceError, EmbeddingError.
        """
        with self.progress("importing and embedding") as update:
            count = counter(update, len({query.workflow for query in queries}))
            graph_keys, left_out = await workflows.load_workflows(
                self.source, self.embedder, queries, folder, count
            )
        score = partial(workflows.evaluate, queries=queries, graph_keys=graph_keys)
        chosen = workflows.ABLATION if ways is None else ways
        return RetrievalReport(
            scores=await self._scored(score, len(queries), chosen, self.second_look),
            about=f"{len(graph_keys)} workflows",
            left_out=left_out,
            graphs=len(graph_keys),
        )

    async def knowledge(self, read: Knowledge, about: str, ways: Ways | None) -> RetrievalReport:
        """Scores questions about a knowledge graph. `ways` None: each part of hybrid retrieval, on
        the passages alone as well.

        Raises: QueryFileError, SourceError, EmbeddingError.
        """
        results: dict[str, Scores] = {}
        bare = read.passages_alone()
        asked = tuple(one for one in read.questions if one.passages)
        if ways is None and asked and read.passages and bare != read:
            alone = {
                f"{name}{knowledge.ALONE}": knowledge.ABLATION[name]
                for name in knowledge.WITHOUT_GRAPH
            }
            questions = replace(bare, questions=asked)
            results |= await self._of_graph(questions, GRAPH_ALONE, alone, None)
        chosen = knowledge.ABLATION if ways is None else ways
        results |= await self._of_graph(read, GRAPH, chosen, self.second_look)
        return RetrievalReport(scores=results, about=about, left_out=read.left_out)

    async def _of_graph(
        self, read: Knowledge, key: str, ways: Ways, look: Retrieves | None
    ) -> dict[str, Scores]:
        with self.progress("embedding") as update:
            stored = await knowledge.load_knowledge(self.source, self.embedder, read, key, update)
        self.on_stored(f"{key}: {len(stored.put_nodes):,} nodes, {len(stored.put_edges):,} edges")
        score = partial(knowledge.score_knowledge, graph_key=key, questions=read.questions)
        return await self._scored(score, len(read.questions), ways, look)

    async def _scored(
        self,
        score: Callable[..., Awaitable[Scores]],
        questions: int,
        ways: Ways,
        look: Retrieves | None,
    ) -> dict[str, Scores]:
        chosen = {**ways, **({SECOND_LOOK: RetrievalOptions()} if look else {})}
        results: dict[str, Scores] = {}
        with self.progress("asking") as update:
            count = counter(update, questions * len(chosen))
            for name, options in chosen.items():
                retriever = look if look and name == SECOND_LOOK else self.retriever
                results[name] = await score(retriever, options=options, on_question=count)
        return results


def counter(update: Callable[[int, int], None], total: int) -> Callable[..., None]:
    """Returns a function that counts its calls, with any arguments, and updates a progress."""
    done = 0

    def count(*_: Any) -> None:
        nonlocal done
        done += 1
        update(done, total)

    return count
