"""Keeps the documents of a push, which hold secrets, encrypted: what takes it back later."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any, final

import orjson

from graphrag.connections.editor import RemoteDocument, RemoteWorkflow
from graphrag.connections.errors import ConnectionRefused
from graphrag.connections.key_store import KeyStore
from graphrag.connections.push_plan import FORMATS, PushPlan
from graphrag.connections.stored_connection import EditorKind
from graphrag.connections.stored_push import Push
from graphrag.workers import run_limited

MAX_SEALED_BYTES = 8 * 1024 * 1024


@final
class KeptDocuments:
    """Seals and opens the server's documents before and after a push."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys

    def sealed(self, plan: PushPlan) -> str | None:
        """Returns the documents encrypted; None where the service has no secret, or where they
        are too large to be kept.
        """
        documents = orjson.dumps({"before": plan.read.document, "after": plan.target})
        packed = base64.b64encode(zlib.compress(documents)).decode()
        if len(packed) > MAX_SEALED_BYTES:
            return None
        try:
            return self._keys.seal(packed)
        except ConnectionRefused:
            return None

    def opened(self, push: Push) -> Mapping[str, Any]:
        """Returns the documents `before` and `after`. Raises: ConnectionRefused without them."""
        if push.sealed_documents is None:
            raise ConnectionRefused("push_undo_gone")
        packed = self._keys.opened(push.sealed_documents)
        documents: Mapping[str, Any] = orjson.loads(zlib.decompress(base64.b64decode(packed)))
        return documents

    async def sent_plan(self, push: Push, kind: EditorKind) -> PushPlan | None:
        """Returns what a push sent, None where its documents were not kept."""
        try:
            documents = self.opened(push)
        except ConnectionRefused:
            return None
        workflow = RemoteWorkflow(
            workflow_id=push.workflow_id, name=push.name, tokens=push.tokens_before
        )
        read = RemoteDocument(workflow=workflow, document=documents["before"])
        return await run_limited(PushPlan.between, read, documents["after"], FORMATS[kind])
