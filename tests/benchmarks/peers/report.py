"""Writes what was measured of peers as Markdown: a table a data set, and where a peer
wins and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.benchmarks.peers.results import Row, header, read

OURS = "this service, hybrid"
FAMILY = "this service"
NOTICEABLE = 0.02
"""Quality figures that differ by less are even: a few questions decide them."""

HEADS = (
    "search p50 ms",
    "with context p50 ms",
    "p95 ms",
    "times our p50",
    "recall@5",
    "recall@10",
    "MRR",
    "tokens",
    "memory MB",
    "load s",
)

WHY: Mapping[tuple[str, str], str] = {
    (
        "NetworkX + NumPy",
        "speed",
    ): "one product of matrix and vector in memory; it keeps nothing on disk, "
    "searches no words, counts no tokens and has no budget to keep",
    (
        "Chroma, vectors only",
        "speed",
    ): "one look-up in a vector index, without words, edges, types or budget",
    (
        "LlamaIndex property graph",
        "speed",
    ): "small enough that its walks through all triplets cost nothing",
    ("LightRAG, local mode", "speed"): "vectors alone, in memory",
    (
        "*",
        "synthetic quality",
    ): "a node's name weighs most in hybrid retrieval, and the names of these graphs "
    "are words drawn at random, as their edges are: vectors of the whole text are all there is to go by",
    ("*", "quality"): "it hands over more nodes, and more of them are passages",
    (
        "*",
        "memory",
    ): "it keeps only vectors and texts in memory; ours keeps a page cache, a word index, "
    "vectors of names and a service's libraries",
    ("*", "load"): "nothing is written to disk, or no word index and no vectors of names are built",
    ("*", "tokens"): "it gives less: fewer nodes, or their texts without types, handles and edges",
}


def stored_report() -> str:
    """Return the report of the stored rows."""
    return f"{header()}\n\n{tables(read())}"


def tables(rows: Sequence[Row]) -> str:
    """Return a Markdown table for each data set and who is ahead in it; the reasons once,
    at the end.
    """
    parts: list[str] = []
    reasons: dict[str, None] = {}
    for title in dict.fromkeys(row["data"] for row in _ordered(rows)):
        chosen = [row for row in rows if row["data"] == title]
        parts.append(
            f"**{_title(chosen[0])}**\n\n{_table(chosen)}\n\n{_winners(chosen, reasons)}".rstrip()
        )
    if reasons:
        parts.append(
            "\n".join(["Why they are ahead:", "", *(f"- {reason}." for reason in reasons)])
        )
    return "\n\n".join(parts)


def _ordered(rows: Sequence[Row]) -> list[Row]:
    """Return synthetic sizes first, by size, then the real sets."""
    return sorted(rows, key=lambda row: (not _synthetic(row), row.get("nodes", 0)))


def _synthetic(row: Row) -> bool:
    return row["data"].replace(",", "").isdigit()


def _title(row: Row) -> str:
    if _synthetic(row):
        return f"{row['data']} nodes, synthetic"
    return f"{row['data']}, {row['questions']} questions, {row['nodes']:,} nodes"


def _table(rows: Sequence[Row]) -> str:
    base = _base(rows)
    lines = [f"| | {' | '.join(HEADS)} |", "|---|" + "---:|" * len(HEADS)]
    for row in rows:
        if row.get("failed"):
            lines.append(f"| {row['peer']} | {row['failed']} |" + " |" * (len(HEADS) - 1))
            continue
        name = (
            row["peer"]
            if row["asked"] == row["questions"]
            else f"{row['peer']} ({row['asked']} asked)"
        )
        ratio = _times(row["p50_ms"] / base["p50_ms"]) if base else ""
        times = f"{row['search_p50_ms']:.2f} | {row['p50_ms']:.2f} | {row['p95_ms']:.2f} | {ratio}"
        quality = f"{row['recall_5']:.3f} | {row['recall_10']:.3f} | {row['mrr']:.3f}"
        costs = f"{row['tokens']:,.0f} | {row['memory_mb']:,.0f} | {row['load_s']:,.1f}"
        lines.append(f"| {name} | {times} | {quality} | {costs} |")
    return "\n".join(lines)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.2g}×"


def _base(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row["peer"] == OURS and not row.get("failed")), None)


def _winners(rows: Sequence[Row], reasons: dict[str, None]) -> str:
    """Name the peers that are ahead of the default mode, by kind of figure; add
    why to `reasons`.
    """
    base = _base(rows)
    if base is None:
        return ""
    peers = [row for row in rows if not row["peer"].startswith(FAMILY) and not row.get("failed")]
    sentences: list[str] = []
    for kind, field, sign in (
        ("speed", "p50_ms", -1),
        ("quality", "recall_10", 1),
        ("tokens", "tokens", -1),
        ("memory", "memory_mb", -1),
        ("load", "load_s", -1),
    ):
        margin = NOTICEABLE if kind == "quality" else 0.0
        ahead = [row for row in peers if sign * (row[field] - base[field]) > margin]
        if kind == "quality":  # of other questions than ours was asked nothing follows
            ahead = [row for row in ahead if row["asked"] == row["questions"]]
        if ahead:
            ahead.sort(key=lambda row: -sign * row[field])
            about = "synthetic quality" if kind == "quality" and _synthetic(base) else kind
            for row in ahead:
                who = row["peer"]
                why = WHY.get((row["peer"], about))
                found = (
                    f"{who}, {_WORDS[kind]}: {why}"
                    if why
                    else f"{_label(kind, base)}: {WHY['*', about]}"
                )
                reasons.setdefault(found)
            sentences.append(f"{_WORDS[kind]}: {'; '.join(row['peer'] for row in ahead)}")
    return (
        f"Ahead of ours in {'. In '.join(sentences)}."
        if sentences
        else "No peer is ahead in any figure."
    )


def _label(kind: str, base: Row) -> str:
    return (
        f"{_WORDS[kind]}{' on synthetic graphs' if kind == 'quality' and _synthetic(base) else ''}"
    )


_WORDS = {
    "speed": "time",
    "quality": "recall@10",
    "tokens": "fewer tokens",
    "memory": "memory",
    "load": "loading",
}
