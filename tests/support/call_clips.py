"""Makes the packaged clips of the callers' lines with espeak-ng:
`python -m tests.support.call_clips`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mock_data
from graphrag.simulator.call_script import CallScript, read_script
from graphrag.simulator.speech import Speech

CALLS = Path(mock_data.__file__).parent / "calls"


def packaged_scripts() -> list[CallScript]:
    return [read_script(file.name, file.read_bytes()) for file in sorted(CALLS.glob("*.yaml"))]


def main() -> None:
    speech = Speech(shutil.which("espeak-ng"), {})
    clips = CALLS / "clips"
    shutil.rmtree(clips, ignore_errors=True)
    clips.mkdir()
    index: dict[str, str] = {}
    for script in packaged_scripts():
        for line in script.lines:
            index[line] = f"{len(index) + 1}.ulaw"
            (clips / index[line]).write_bytes(speech.sound(line, script.language))
    (clips / "index.json").write_text(json.dumps(index, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
