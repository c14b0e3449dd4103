"""Runs the rules over a graph. `metadata.checks` of the graph sets severities, disables rules
and accepts findings.
"""

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
    """A violation with its rule and severity."""

    rule: str
    severity: Severity
    violation: Violation

    def sentence(self, language: Language = "en") -> str:
        """Returns the finding as a sentence, with possible secrets redacted."""
        return redacted(_sentences(language)[self.rule].format_map(self.violation.facts)).text

    @property
    def repair(self) -> Mapping[str, Any] | None:
        """The tool call that proposes a repair; None if it would contain a secret."""
        repair = self.violation.repair
        text = "" if repair is None else compact_json(repair)
        return repair if redacted(text).text == text else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """Settings of the checks: severities that replace the defaults, disabled rules, accepted
    findings.

    `allowed` maps accepted pairs of rule and node key to the reason given.
    """

    severities: Mapping[str, Severity] = field(default_factory=dict[str, Severity])
    off: frozenset[str] = frozenset()
    allowed: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    @classmethod
    def of(cls, metadata: Mapping[str, Any] | None) -> Checks:
        """Reads `metadata.checks`: `{rules: {name: "off" or a severity}, allow:
        [{rule, node, reason}]}`.

        Ignores settings of any other form, so that such a graph is still checked.
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
    """Returns the findings in a graph, ordered by severity, then rule, then node.

    `checks` defaults to the settings of the graph. `only` limits the rules; empty means all.
    """
    checks = checks or Checks.of(view.graph.metadata)
    findings: list[GraphFinding] = []
    for name, rule in RULES.items():
        if name in checks.off or (only and name not in only):
            continue
        severity = checks.severities.get(name, _SEVERITIES[name])
        for violation in rule(view):
            if not any((name, key) in checks.allowed for key in violation.nodes[:1]):
                findings.append(GraphFinding(rule=name, severity=severity, violation=violation))
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.rule, f.violation.nodes))


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
