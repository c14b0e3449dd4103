"""Claude Code as it is published, with a model of loopback that calls one tool and
then says something.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.node_packages import node_modules

CLAUDE_CODE = "@anthropic-ai/claude-code@2.1.197"
SAID = "It waits for a person."


class ToolCallingModel:
    """An ASGI application that answers `/v1/messages`: with a call of `tool`, and after its
    result in words.

    `results`: what the tool's results were, as the model got them.
    """

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        self.tool = tool
        self.arguments = arguments
        self.results: list[str] = []

    async def __call__(
        self, scope: Any, receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body = body + message.get("body", b"")
            more = message.get("more_body", False)
        is_asked = (scope["method"], scope["path"]) == ("POST", "/v1/messages")
        status, kind = (200, b"text/event-stream") if is_asked else (404, b"application/json")
        content = self._events(json.loads(body)) if is_asked else b"{}"
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]}
        )
        await send({"type": "http.response.body", "body": content})

    def _events(self, asked: dict[str, Any]) -> bytes:
        last = asked["messages"][-1]["content"]
        parts = [part for part in last if isinstance(part, dict)] if isinstance(last, list) else []
        results = [
            json.dumps(part["content"]) for part in parts if part.get("type") == "tool_result"
        ]
        self.results += results
        has_tool = any(tool.get("name") == self.tool for tool in asked.get("tools", []))
        if has_tool and not results:
            block: dict[str, Any] = {
                "type": "tool_use",
                "id": "toolu_1",
                "name": self.tool,
                "input": {},
            }
            delta = {"type": "input_json_delta", "partial_json": json.dumps(self.arguments)}
            why = "tool_use"
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": SAID}
            why = "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        begun = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": asked["model"],
            "content": [],
        }
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**begun, "stop_reason": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": why}, "usage": usage},
            {"type": "message_stop"},
        ]
        return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


class ClaudeCode:
    """The program in a home of its own, that knows no person and asks a model of loopback."""

    def __init__(self, folder: Path, model_url: str, **environment: str) -> None:
        self._folder = folder
        # npm runs no scripts of packages here; theirs only links the program of this system.
        programs = next((node_modules(CLAUDE_CODE) / "@anthropic-ai").glob("claude-code-*"))
        ours = Path(sys.executable).parent  # `nodius` is there
        path = os.pathsep.join([str(programs), str(ours), os.environ["PATH"]])
        self._environment = {
            "HOME": str(folder),
            "PATH": path,
            "ANTHROPIC_BASE_URL": model_url,
            "ANTHROPIC_API_KEY": "sk-ant-of-nobody",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            **environment,
        }

    def run(self, script: str) -> str:
        """Run lines of a shell; return what they print. Raises: AssertionError where one fails."""
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
