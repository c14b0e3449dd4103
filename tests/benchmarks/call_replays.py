"""How long `nodius calls eval` takes for stored simulated calls, and what it finds.

Run: `python -m tests.benchmarks.call_replays --calls 100`. Makes a call by the phone simulator for
each of SAYINGS, and stores copies of them with other ids, up to the number. All are replayed
against the same document, and against one without the tool `note`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from datasources.base import Record
from datasources.sqlite import SqliteDatabase
from mock_data import load_json
from tests.cli.test_calls_eval import SCRIPT, agent
from tests.support.in_thread import in_thread
from tests.support.loopback_api import loopback_api

SAYINGS = ("Who plays?", "Which players are there?", "Tell me about the teams.", "And matches?")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100)
    measure(parser.parse_args().calls)


def measure(wanted: int) -> None:
    """Prints the duration and the findings of both evaluations."""
    with tempfile.TemporaryDirectory() as place, in_thread(loopback_api()) as (api, _):
        api.answers["POST /notes"] = {"kept": True}
        folder = Path(place)
        document = agent(api.url)
        (folder / "desk.json").write_text(json.dumps(document))
        broken = agent(api.url, session={**document["session"], "tools": []})
        (folder / "broken.json").write_text(json.dumps(broken))
        env = {
            **os.environ,
            "NODIUS_DB": f"sqlite:{folder}/calls.db",
            "NODIUS_AGENT_HTTP_ALLOW": f"127.0.0.1:{api.port}",
        }
        (folder / "nba.json").write_text(json.dumps(load_json("nba.json")))
        _run(env, folder, "import", "nba.json", "--no-embed")
        _run(env, folder, "agents", "apply", "desk.json", "--start")
        for number, saying in enumerate(SAYINGS):
            script = SCRIPT.replace("Who plays?", saying)
            (folder / f"{number}.yaml").write_text(script)
            _run(env, folder, "call", "desk", "--simulate", f"{number}.yaml", "--json")
        asyncio.run(_copy(folder / "calls.db", wanted))
        sent = len(api.arrived)
        for name in ("desk.json", "broken.json"):
            began = time.perf_counter()
            report = _run(
                env, folder, "calls", "eval", "--document", name, "--json", "--limit", str(wanted)
            )
            print(name, _line(report, time.perf_counter() - began))
        print(f"requests sent meanwhile: {len(api.arrived) - sent}")


def _line(report: dict[str, Any], seconds: float) -> str:
    verdicts = {name: report[name] for name in ("replayed", "same", "changed", "worse", "words")}
    return f"{seconds:.0f} s: {verdicts}, outcomes {report['outcomes']}"


def _run(env: dict[str, str], folder: Path, *words: str) -> Any:
    """Runs a command in a process of its own. Returns the JSON that it prints, if it does."""
    command = [Path(sys.executable).with_name("nodius"), *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr.decode())
    return json.loads(done.stdout) if "--json" in words else None


async def _copy(file: Path, wanted: int) -> None:
    """Stores copies of the calls and their threads until there are as many as wanted."""
    async with SqliteDatabase(file) as database:
        records = database.records("default")
        calls = [one for one in await records.query("call") if one.data["agentId"] == "desk"]
        for number in range(wanted - len(calls)):
            key = f"copy{number:04}"
            original = calls[number % len(calls)]
            for kind, name in (("call", "callId"), ("thread", None)):
                stored = await records.get(kind, original.key)
                assert stored is not None
                data = {**stored.data, **({} if name is None else {name: key})}
                copy = Record(kind=kind, key=key, data=data)
                await records.put(copy, expected_version=None)


if __name__ == "__main__":
    main()
