"""Checks that the graphs, hosts, secrets and models that an agent's document names exist.

From outside: `World`, `check_world`, `check_variables`, `problem`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, final

from datasources.base import GraphDataSource
from datasources.errors import GraphNotFound
from graphrag.agents.compiled_agent import CompiledAgent, requests_of
from graphrag.config import Settings, SettingsError
from graphrag.llm.registry import ENTRIES, choose
from tools.http.addresses import AddressRefused, AddressRules, Origin, origin_of
from tools.http.problems import DocumentProblem
from tools.http.secret_values import Secrets

LOOK_UP_S: Final = 3.0

_HOSTS = {
    "refused": (
        "host_not_allowed",
        "may not be reached",
        "public hosts, and those of NODIUS_AGENT_HTTP_ALLOW",
    ),
    "unknown": ("host_unknown", "cannot be looked up just now", None),
}


TryVoice = Callable[[CompiledAgent], Awaitable[DocumentProblem | None]]
"""Opens a session of an agent's voice model. Returns the problem, or None."""


@final
class World:
    """The graphs, hosts, secrets and models of a workspace, for checks of its agents."""

    def __init__(
        self,
        settings: Settings,
        source: GraphDataSource,
        secrets: Secrets,
        rules: AddressRules,
        *,
        try_voice: TryVoice,
    ) -> None:
        self.secrets = secrets
        self._try_voice = try_voice
        self._settings = settings
        self._source = source
        self._rules = rules

    async def has_graph(self, graph_key: str) -> bool:
        try:
            await self._source.get_graph(graph_key)
        except GraphNotFound:
            return False
        return True

    async def host_refused(self, host: str, port: int) -> Literal["refused", "unknown"] | None:
        try:
            async with asyncio.timeout(LOOK_UP_S):
                await self._rules.check(host, port)
        except AddressRefused:
            return "refused"
        except (OSError, TimeoutError):
            return "unknown"
        return None

    def has_model_key(self, provider: str | None) -> bool:
        try:
            choose(self._settings, provider)
        except SettingsError:
            return False
        return True

    async def voice_problem(self, agent: CompiledAgent) -> DocumentProblem | None:
        """Returns why no call can be held with an agent's voice model, None if one can."""
        return await self._try_voice(agent)


async def check_world(agent: CompiledAgent, world: World) -> list[DocumentProblem]:
    """Returns what the agent needs and is missing; only `host_unknown` is a warning."""
    problems: list[DocumentProblem] = []
    for index, key in enumerate(agent.document.graphs):
        if not await world.has_graph(key):
            what = f"there is no graph {key!r}"
            allowed = "graphs of the workspace"
            problems.append(problem(f"graphs.{index}", "graph_not_found", what, allowed))
    for origin, where in places_of_hosts(agent).items():
        refused = await world.host_refused(origin.host, origin.port)
        if refused is not None:
            code, what, allowed = _HOSTS[refused]
            problems.append(problem(where, code, f"the host {origin.netloc} {what}", allowed))
    for index, use in enumerate(agent.document.secrets):
        if world.secrets.missing([use.name]):
            what = f"the secret {use.name} is not configured"
            allowed = f"NODIUS_SECRET_{use.name}, or its file"
            problems.append(problem(f"secrets.{index}.name", "secret_missing", what, allowed))
    return problems + _of_the_model(agent, world)


def places_of_hosts(agent: CompiledAgent) -> dict[Origin, str]:
    """Returns the origins of the agent's requests, each with its first place in the document."""
    found: dict[Origin, str] = {}
    base = base_origin(agent.base_url) if agent.base_url else None
    for where, request in requests_of(agent.document):
        assert request.url is not None
        origin, _ = request.url.beginning(agent.base_url)
        found.setdefault(origin, "base_url" if origin == base else f"{where}.url")
    return found


def base_origin(base_url: str) -> Origin | None:
    """Returns the origin of a base URL; None if it is invalid."""
    try:
        return origin_of(base_url)
    except ValueError:
        return None


def _of_the_model(agent: CompiledAgent, world: World) -> list[DocumentProblem]:
    provider = agent.document.chat.provider
    if not agent.document.uses_chat_model:
        return []
    if provider is not None and provider not in ENTRIES:
        what = f"there is no provider {provider!r}"
        return [problem("chat.provider", "provider_unknown", what, ", ".join(sorted(ENTRIES)))]
    if not world.has_model_key(provider):
        what = f"no key is set for {provider or 'the model of the service'}"
        return [
            problem(
                "chat.provider", "model_key_missing", what, "the provider's key in the settings"
            )
        ]
    return []


def check_variables(variables: Mapping[str, str], world: World) -> list[DocumentProblem]:
    """Returns the variables that contain a configured secret, which the document would store."""
    what, allowed = "a configured secret is no variable", "{{secret.NAME}} in headers"
    return [
        problem(f"variables.{name}", "secret_not_allowed_here", what, allowed)
        for name, value in variables.items()
        if world.secrets.present(value)
    ]


def problem(where: str, code: str, what: str, allowed: str | None) -> DocumentProblem:
    return DocumentProblem(where=where, code=code, what=what, allowed=allowed)
