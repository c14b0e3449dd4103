"""Runs the command line: `python -m nodius_graphrag`."""

from nodius_graphrag import run

if __name__ == "__main__":
    run()
