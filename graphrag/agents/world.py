"""Checks that what an agent's document refers to exists: graphs, hosts, secrets, a model.

From outside: `World`, `check_world`, `check_variables`, `problem`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, Protocol

from graphrag.agents.compiled_agent import CompiledAgent, requests_of
from tools.http.addresses import Origin, origin_of
from tools.http.problems import DocumentProblem

_HOSTS = {
    "refused": (
        "host_not_allowed",
        "may not be reached",
        "public hosts, and those of NODIUS_AGENT_HTTP_ALLOW",
    ),
    "unknown": ("host_unknown", "cannot be looked up just now", None),
}


class World(Protocol):
    """What is there: asked when an agent is checked and started."""

    async def has_graph(self, graph_key: str) -> bool:
        """Return whether the workspace has a graph."""
        ...

    async def host_refused(self, host: str, port: int) -> Literal["refused", "unknown"] | None:
        """Return whether a host may not be reached, or cannot be looked up just now; None: it may."""
        ...

    def has_secret(self, name: str) -> bool:
        """Return whether a secret is configured."""
        ...

    def is_secret(self, text: str) -> bool:
        """Return whether a text is the value of a configured secret."""
        ...

    def providers(self) -> Collection[str]:
        """Return the names of the providers of models."""
        ...

    def has_model_key(self, provider: str | None) -> bool:
        """Return whether a provider has the key it needs; None is the service's provider."""
        ...


async def check_world(agent: CompiledAgent, world: World) -> list[DocumentProblem]:
    """Return what the agent needs and has not; of the codes only `host_unknown` is a warning."""
    problems: list[DocumentProblem] = []
    for index, key in enumerate(agent.document.graphs):
        if not await world.has_graph(key):
            what, allowed = f"there is no graph {key!r}", "graphs of the workspace"
            problems.append(problem(f"graphs.{index}", "graph_not_found", what, allowed))
    for origin, where in places_of_hosts(agent).items():
        refused = await world.host_refused(origin.host, origin.port)
        if refused is not None:
            code, what, allowed = _HOSTS[refused]
            problems.append(problem(where, code, f"the host {origin.netloc} {what}", allowed))
    for index, use in enumerate(agent.document.secrets):
        if not world.has_secret(use.name):
            what, allowed = (
                f"the secret {use.name} is not configured",
                f"NODIUS_SECRET_{use.name}, or its file",
            )
            problems.append(problem(f"secrets.{index}.name", "secret_missing", what, allowed))
    return problems + _of_the_model(agent, world)


def places_of_hosts(agent: CompiledAgent) -> dict[Origin, str]:
    """Return where the agent's requests go, each with the first place of the document that says so."""
    found: dict[Origin, str] = {}
    base = base_origin(agent.base_url) if agent.base_url else None
    for where, request in requests_of(agent.document):
        assert request.url is not None
        origin, _ = request.url.beginning(agent.base_url)
        found.setdefault(origin, "base_url" if origin == base else f"{where}.url")
    return found


def base_origin(base_url: str) -> Origin | None:
    """Return where a base URL leads; None for one that leads nowhere."""
    try:
        return origin_of(base_url)
    except ValueError:
        return None


def _of_the_model(agent: CompiledAgent, world: World) -> list[DocumentProblem]:
    provider = agent.document.chat.provider
    if "chat" not in agent.document.channels:
        return []
    known = sorted(world.providers())
    if provider is not None and provider not in known:
        what = f"there is no provider {provider!r}"
        return [problem("chat.provider", "provider_unknown", what, ", ".join(known))]
    if not world.has_model_key(provider):
        what = f"no key is set for {provider or 'the model of the service'}"
        return [problem("chat.provider", "model_key_missing", what, "the provider's key in the settings")]
    return []


def check_variables(variables: Mapping[str, str], world: World) -> list[DocumentProblem]:
    """Return which variables hold a configured secret: a document, which people read, would store it."""
    what, allowed = "a configured secret is no variable", "{{secret.NAME}} in headers"
    return [
        problem(f"variables.{name}", "secret_not_allowed_here", what, allowed)
        for name, value in variables.items()
        if world.is_secret(value)
    ]


def problem(where: str, code: str, what: str, allowed: str | None) -> DocumentProblem:
    return DocumentProblem(where=where, code=code, what=what, allowed=allowed)
