"""Starts the MCP server of the bundle: what `nodius mcp` does."""

import sys

from nodius_graphrag import run

sys.argv[1:] = ["mcp"]
run()
