"""Runs the rules over a graph and weighs what they find, as the graph's `metadata.checks` says."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, cast

from languages import Language
from languages.reading import read_tables
from tools.checks import content, flow
from tools.checks.checked_graph import CheckedGraph, Violation
from tools.secret_texts import redacted
from tools.toon import compact_json

Severity = Literal["error", "warning", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
Rule = Callable[[CheckedGraph], Iterator[Violation]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFinding:
    """What is wrong, where, and how it can be repaired."""

    rule: str
    severity: Severity
    found: Violation

    def sentence(self, language: Language = "en") -> str:
        """Returns the finding in words, without what looks like a secret in a name."""
        return redacted(_sentences(language)[self.rule].format_map(self.found.facts)).text

    @property
    def repair(self) -> Mapping[str, Any] | None:
        """The proposal that mends it, unless it would repeat a secret."""
        repair = self.found.repair
        written = "" if repair is None else compact_json(repair)
        return repair if redacted(written).text == written else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """Which rules hold: severities that replace the usual ones, rules that are
    off, accepted findings.

    `allowed` are pairs of rule and node key that somebody accepted, each with a reason.
    """

    severities: Mapping[str, Severity] = field(default_factory=dict[str, Severity])
    off: frozenset[str] = frozenset()
    allowed: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    @classmethod
    def of(cls, metadata: Mapping[str, Any] | None) -> Checks:
        """Read `metadata.checks`: `{rules: {name: "off" or a severity}, allow:
        [{rule, node, reason}]}`.

        What is not of this form is passed over: a graph with a strange setting is still checked.
        """
        raw = _mapping(_mapping(metadata).get("checks"))
        rules = {name: level for name, level in _mapping(raw.get("rules")).items() if name in RULES}
        listed = raw.get("allow")
        allowed = (
            [_mapping(item) for item in cast(list[Any], listed)] if isinstance(listed, list) else []
        )
        return cls(
            severities={name: level for name, level in rules.items() if level in SEVERITIES},
            off=frozenset(name for name, level in rules.items() if level == "off"),
            allowed={
                (str(item["rule"]), str(item["node"])): str(item.get("reason") or "")
                for item in allowed
                if "rule" in item and "node" in item
            },
        )


def check(
    view: CheckedGraph, checks: Checks | None = None, only: Sequence[str] = ()
) -> list[GraphFinding]:
    """Return what is wrong with a graph, the worst first, then by rule and node."""
    checks = checks or Checks.of(view.graph.metadata)
    found: list[GraphFinding] = []
    for name, rule in RULES.items():
        if name in checks.off or (only and name not in only):
            continue
        severity = checks.severities.get(name, _SEVERITIES[name])
        for one in rule(view):
            if not any((name, key) in checks.allowed for key in one.nodes[:1]):
                found.append(GraphFinding(rule=name, severity=severity, found=one))
    return sorted(found, key=lambda f: (SEVERITIES.index(f.severity), f.rule, f.found.nodes))


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


@cache
def _sentences(language: Language) -> Mapping[str, str]:
    return read_tables(language, "checks.toml")


_SEVERITIES: Final[dict[str, Severity]] = cast(
    dict[str, Severity], tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))
)
RULES: Final[Mapping[str, Rule]] = {
    name: rule
    for name in _SEVERITIES
    if (rule := getattr(flow, name, None) or getattr(content, name, None))
}
