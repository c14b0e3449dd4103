"""Loads prompts: Markdown templates that declare their inputs, and renders them.

A placeholder is `<<name>>`, so that client links such as `{{node:KEY}}` and code stand for
themselves. A template whose placeholders and declared inputs differ fails when it is loaded; a
value is inserted once and never read as a template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from graphrag.i18n import Language

_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_PLACEHOLDER = re.compile(r"<<([a-z_]*)>>")
_SECTION = re.compile(r"^## ([a-z_]+)\n", re.MULTILINE)
_NAME = re.compile(r"[a-z_]+")


class PromptError(Exception):
    """A prompt cannot be used; the text names it and what is wrong with it."""

    def __init__(self, *, prompt: str, reason: str) -> None:
        self.prompt, self.reason = prompt, reason
        super().__init__(f"prompt {prompt!r}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A checked template: `body` holds each of `inputs` at least once and no other placeholder."""

    name: str
    inputs: frozenset[str]
    body: str

    def render(self, values: Mapping[str, str]) -> str:
        """Return the body with every placeholder replaced. Raises: PromptError for other than its inputs."""
        given = frozenset(values)
        if given != self.inputs:
            reason = _difference("given values", given, "declared inputs", self.inputs)
            raise PromptError(prompt=self.name, reason=reason)
        return _PLACEHOLDER.sub(lambda match: values[match.group(1)], self.body)


def parse_template(name: str, text: str) -> Template:
    """Return the template of a Markdown text with the front matter `inputs: a, b`.

    Raises: PromptError when front matter is missing or malformed, or when a placeholder is
    undeclared or a declared input unused.
    """
    front = _FRONT.match(text)
    if front is None:
        raise PromptError(prompt=name, reason="it must begin with front matter: ---, inputs: a, b, ---")
    declared = _declared(name, front.group(1))
    body = text[front.end() :].strip()
    used: frozenset[str] = frozenset(_PLACEHOLDER.findall(body))
    if used != declared:
        reason = _difference("placeholders", used, "declared inputs", declared)
        raise PromptError(prompt=name, reason=reason)
    return Template(name=name, inputs=declared, body=body)


def _declared(name: str, front: str) -> frozenset[str]:
    field, _, value = front.partition(":")
    if field.strip() != "inputs" or "\n" in front.strip():
        raise PromptError(prompt=name, reason="front matter holds one line, `inputs: a, b`")
    inputs = [part for part in map(str.strip, value.split(",")) if part]
    for part in inputs:
        if not _NAME.fullmatch(part):
            raise PromptError(prompt=name, reason=f"input {part!r} must be lower-case letters and _")
    if len(set(inputs)) < len(inputs):
        raise PromptError(prompt=name, reason="an input is declared twice")
    return frozenset(inputs)


def _difference(this: str, found: frozenset[str], that: str, wanted: frozenset[str]) -> str:
    extra, missing = sorted(found - wanted), sorted(wanted - found)
    parts: list[str] = []
    if extra:
        parts.append(f"{this} not among {that}: {', '.join(map(repr, extra))}")
    if missing:
        parts.append(f"{that} not among {this}: {', '.join(map(repr, missing))}")
    return "; ".join(parts)


@lru_cache(maxsize=32)
def load_template(name: str, language: Language) -> Template:
    """Return the template `name.language.md` of this package. Raises: PromptError."""
    return parse_template(f"{name}.{language}", _read(f"{name}.{language}.md"))


@lru_cache(maxsize=32)
def load_phrases(name: str, language: Language) -> Mapping[str, Template]:
    """Return the `## section` templates of `name.language.md`; each declares what it holds.

    Raises: PromptError.
    """
    text = _read(f"{name}.{language}.md")
    parts = _SECTION.split(text)
    phrases: dict[str, Template] = {}
    for section, body in zip(parts[1::2], parts[2::2], strict=True):
        full = f"{name}.{language}#{section}"
        if section in phrases:
            raise PromptError(prompt=full, reason="the section stands twice")
        inputs: frozenset[str] = frozenset(_PLACEHOLDER.findall(body))
        if not all(_NAME.fullmatch(part) for part in inputs):
            raise PromptError(prompt=full, reason="a placeholder has no name")
        phrases[section] = Template(name=full, inputs=inputs, body=body.strip())
    return phrases


def _read(filename: str) -> str:
    try:
        text = resources.files("graphrag.prompts").joinpath(filename).read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as exc:
        raise PromptError(prompt=filename, reason=f"the file cannot be read: {type(exc).__name__}") from exc
    return text.replace("\r\n", "\n")
