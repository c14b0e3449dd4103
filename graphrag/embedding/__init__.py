"""Embedders, their selection by settings, and the renewal of outdated vectors.

Public: `embedder`, `refresh`, `queue`, `workspace_embedder`, `packaged`, `local` (its tokenizer)
and `language`.
"""

from __future__ import annotations

from graphrag.config import Settings
from graphrag.embedding.embedder import EmbeddingProvider
from graphrag.embedding.local import LocalEmbedder
from graphrag.embedding.packaged import BY_SETTING

__all__ = ["LocalEmbedder", "make_embedder"]


def _is_for_openai(settings: Settings) -> bool:
    """Returns whether an OpenAI key may be used for embeddings.

    False if the model runs at another address and no address or key for embeddings is set: such
    a user would not expect texts to be sent to OpenAI.
    """
    is_configured = settings.embedder.base_url is not None or settings.embedder.api_key is not None
    return is_configured or settings.llm.base_url is None


def make_embedder(settings: Settings) -> EmbeddingProvider | None:
    """Returns the embedder selected by the settings, or None if embeddings are turned off."""
    key = settings.embedder.api_key or settings.key_of("OPENAI_API_KEY")
    has_key = key is not None and bool(key.get_secret_value().strip())
    if settings.embeddings == "none":
        return None
    if settings.embeddings == "auto" and not (has_key and _is_for_openai(settings)):
        return LocalEmbedder()
    if settings.embeddings in BY_SETTING:
        return BY_SETTING[settings.embeddings]()
    # Imported here because loading the client library takes longer than most commands.
    from graphrag.embedding.remote import OpenAICompatibleEmbedder

    return OpenAICompatibleEmbedder(
        model=settings.embedder.model,
        base_url=settings.embedder.base_url,
        api_key=key.get_secret_value() if key and has_key else None,
    )
