"""The installed package: carries the rooms of the repository and makes them importable in
its own process.

The rooms have general names (`cli`, `graphrag`, `server`, `tools`, …), which other
distributions use as well. A wheel therefore installs them inside this package, and only a
program that starts here sees them: `nodius`, `nodius-graphrag`, `python -m nodius_graphrag`,
or a program that calls `activate()` first.

Decision: the rooms are found through the import path of the process, not as submodules,
so that the repository and the wheel run the same import statements and no other
distribution is ever overwritten.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOMS = ("cli", "datasources", "graphrag", "languages", "mock_data", "server", "tools")


def activate() -> None:
    """Put the folder of the rooms first on this process's import path, so that `import
    graphrag` is ours.

    May be called more than once.
    Raises: ImportError where the process has imported another distribution's module of such a name.
    """
    here = Path(__file__).resolve().parent
    folder = here if (here / "graphrag").is_dir() else here.parent  # installed, or a checkout
    for room in ROOMS:
        loaded = getattr(sys.modules.get(room), "__file__", None)
        if loaded is not None and not Path(loaded).resolve().is_relative_to(folder):
            raise ImportError(
                f"another {room!r} is imported already ({loaded}); call nodius_graphrag.activate() before it"
            )
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))


def run() -> None:
    """Run the command line: the entry point of the scripts `nodius` and `nodius-graphrag`."""
    activate()
    from cli.main import run as run_command_line

    run_command_line()
