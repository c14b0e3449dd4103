"""What of a node is embedded, when it must be embedded again, and the interface of embedders."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import orjson
from numpy.typing import NDArray

from datasources.text import node_text
from datasources.types import Node, NodeTypeConfig, other_values
from graphrag.llm.errors import ProviderError

TEXT_VERSION = 1
"""Raised when the embedded text of an unchanged node becomes another; old vectors
are then renewed.
"""

MAX_EMBEDDED_CHARS = 8_000

_ALWAYS_HASHED = frozenset(("type", "data", "process", "handles"))


class AskedText(str):
    """A text that asks. Some models want it to begin otherwise than what is to be found."""

    __slots__ = ()


class EmbeddingError(ProviderError):
    """Base of what an embedding provider raises on purpose."""


class EmbeddingRefused(EmbeddingError, says="refused to embed"):
    """The service answered with an error."""


class EmbeddingUnauthorized(EmbeddingError):
    def __init__(self, *, provider: str, variable: str) -> None:
        self.variable = variable
        self.says = f"does not accept the key: set {variable}"
        super().__init__(provider=provider, reason="")


class EmbeddingUnreachable(EmbeddingError, says="cannot be reached", retryable=True): ...


class EmbeddingMalformed(EmbeddingError, says="sent unusable embeddings"):
    """The service answered, but not with one finite vector of one length for each text."""


class EmbeddingProvider(Protocol):
    """Turns texts into vectors. `model` names what made them.

    A text that is an AskedText is embedded as one where the model makes a difference.
    """

    @property
    def model(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector a text, in one attempt: who may wait tries again.

        Shapes: float32[len(texts), n]; rows have length 1, or 0 for no
        text. Raises: EmbeddingError.
        """
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class ReportsTokens(Protocol):
    """Optional ability of a provider: its service says how many tokens it charges."""

    async def embed_counted(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], int | None]:
        """Return what `embed` does, and the tokens charged; None where the service does not say."""
        ...


def encodable(text: str) -> str:
    """Returns the beginning of a text that a tokenizer is given, at most MAX_EMBEDDED_CHARS.

    Half a surrogate pair, which no tokenizer accepts, becomes `?`.
    """
    return text[:MAX_EMBEDDED_CHARS].encode(errors="replace").decode()


def content_text(node: Node, config: NodeTypeConfig | None) -> str:
    """Return the text of the node's content vector, most specific
    first, at most MAX_EMBEDDED_CHARS.
    """
    text = node_text(node, config)
    parts = (name_text(node, config), text.description, text.data, text.process)
    return "\n".join(part for part in parts if part)[:MAX_EMBEDDED_CHARS]


def name_text(node: Node, config: NodeTypeConfig | None) -> str:
    """Return the text of the node's name vector: what it is called and the name of its type."""
    text = node_text(node, config)
    return f"{text.name or text.key} {text.type_name or text.type}"


def embedding_hash(node: Node, config: NodeTypeConfig | None) -> str:
    """Return the fingerprint of what an embedding depends on.

    That is type, type name, description and code, data, process, the number of handles, and what is
    set of other fields that `Node` declares as embedded: a field that is new to `Node` renews no
    vector by itself.
    """
    handles = sum(len(group.point) for group in node.handles.values())
    of_type = (config.display_name, config.description, config.node.process) if config else None
    others = other_values(node, "embedded", _ALWAYS_HASHED)
    of_node = (node.key, node.type, of_type, node.data, node.process, handles, *others.items())
    canonical = orjson.dumps(
        (TEXT_VERSION, *of_node), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    )
    return hashlib.sha256(canonical).hexdigest()[:32]
