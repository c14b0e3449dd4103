"""The interface of embedders, the embedded texts of a node, and the hash that shows whether its
vectors are outdated.
"""

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
"""To be increased when unchanged nodes get another embedded text, so that vectors are renewed."""

MAX_EMBEDDED_CHARS = 8_000

_ALWAYS_HASHED = frozenset(("type", "data", "process", "handles"))


class AskedText(str):
    """A query. Some models require another prefix for queries than for passages."""

    __slots__ = ()


class EmbeddingError(ProviderError):
    """Base of all errors of embedding providers."""


class EmbeddingRefused(EmbeddingError, says="refused to embed"):
    """Raised when the service answered with an error."""


class EmbeddingUnauthorized(EmbeddingError):
    def __init__(self, *, provider: str, variable: str) -> None:
        self.variable = variable
        self.says = f"does not accept the key: set {variable}"
        super().__init__(provider=provider, reason="")


class EmbeddingUnreachable(EmbeddingError, says="cannot be reached", retryable=True): ...


class EmbeddingMalformed(EmbeddingError, says="sent unusable embeddings"):
    """Raised when an answer does not contain one finite vector of the same length for each text."""


class EmbeddingProvider(Protocol):
    """Turns texts into vectors of the model `model`.

    An AskedText is embedded as a query if the model distinguishes queries and passages.
    """

    @property
    def model(self) -> str: ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns one vector for each text. Makes one attempt; retries are up to the caller.

        Shapes: float32[len(texts), n]; rows have norm 1, or 0 for an empty text.
        Raises: EmbeddingError.
        """
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class ReportsTokens(Protocol):
    """Optional ability of a provider: it knows the number of tokens charged."""

    async def embed_counted(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], int | None]:
        """Returns the vectors of `embed` and the tokens charged, None if the service omits them."""
        ...


def encodable(text: str) -> str:
    """Returns the first MAX_EMBEDDED_CHARS characters of a text for a tokenizer.

    A lone surrogate, which no tokenizer accepts, becomes `?`.
    """
    return text[:MAX_EMBEDDED_CHARS].encode(errors="replace").decode()


def content_text(node: Node, config: NodeTypeConfig | None) -> str:
    """Returns the text of the node's content vector, at most MAX_EMBEDDED_CHARS characters, with
    the most specific parts first.
    """
    text = node_text(node, config)
    parts = (name_text(node, config), text.description, text.data, text.process)
    return "\n".join(part for part in parts if part)[:MAX_EMBEDDED_CHARS]


def name_text(node: Node, config: NodeTypeConfig | None) -> str:
    """Returns the text of the node's name vector: its name and the name of its type."""
    text = node_text(node, config)
    return f"{text.name or text.key} {text.type_name or text.type}"


def embedding_hash(node: Node, config: NodeTypeConfig | None) -> str:
    """Returns a hash of all inputs of a node's embedding.

    These are the type with its name, description and code, the data, process, number of handles,
    and all set fields that `Node` declares as embedded. Unset fields are left out, so adding a
    field to `Node` does not invalidate existing vectors.
    """
    handles = sum(len(group.point) for group in node.handles.values())
    of_type = (config.display_name, config.description, config.node.process) if config else None
    others = other_values(node, "embedded", _ALWAYS_HASHED)
    of_node = (node.key, node.type, of_type, node.data, node.process, handles, *others.items())
    canonical = orjson.dumps(
        (TEXT_VERSION, *of_node), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    )
    return hashlib.sha256(canonical).hexdigest()[:32]
