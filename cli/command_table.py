"""The commands of `nodius`, with their modules and their lines in `nodius --help`."""

from __future__ import annotations

from typing import NamedTuple


class ListedCommand(NamedTuple):
    """The module of a command or a group of commands, and the first paragraph of its help."""

    module: str
    name: str
    help: str


# The help texts are repeated here so that `nodius --help` imports no command. A test compares them.
COMMANDS = {
    "demo": ListedCommand(
        "cli.demo",
        "demo",
        "Import sample graphs, ask one, then serve the page; in a script or with --no-serve, a tour instead.",
    ),
    "serve": ListedCommand(
        "cli.serve",
        "serve",
        "Serve the page, REST and WebSocket until Ctrl-C. Other computers need sign-in.",
    ),
    "token": ListedCommand(
        "cli.token",
        "token",
        "Print a token to sign in with (signed with NODIUS_AUTH_SECRET), or a key for a program.",
    ),
    "mcp": ListedCommand(
        "cli.serve",
        "mcp",
        "Serve the graphs to an agent that speaks MCP, over standard input and output.",
    ),
    "stream": ListedCommand(
        "cli.stream",
        "stream",
        "Ask a running service and show the answer as it is written. Ctrl-C stops the turn.",
    ),
    "check": ListedCommand(
        "cli.check",
        "check",
        "Find problems of a graph: steps never reached, open error outputs, broken references, …",
    ),
    "today": ListedCommand(
        "cli.today",
        "today_command",
        "Tell what happened: findings, proposals that wait, failed runs, decisions, costs.",
    ),
    "import": ListedCommand(
        "cli.import_files",
        "import_files",
        "Import workflows; importing a file again merges it into its graph.",
    ),
    "connect": ListedCommand(
        "cli.connections",
        "connect",
        "Connect with a running n8n or Node-RED server and read its workflows.",
    ),
    "connections": ListedCommand(
        "cli.connections",
        "list_connections",
        "List the connections with workflow servers, and how each graph stands.",
    ),
    "sync": ListedCommand(
        "cli.connections",
        "sync",
        "Read what changed on connected servers into their graphs.",
    ),
    "push": ListedCommand(
        "cli.pushes",
        "push",
        "Write what was changed here to a connected server, after you have seen it.",
    ),
    "pushes": ListedCommand(
        "cli.pushes",
        "pushes",
        "See and decide what is written to connected servers.",
    ),
    "disconnect": ListedCommand(
        "cli.connections",
        "disconnect",
        "Remove a connection. Its graphs stay.",
    ),
    "export": ListedCommand(
        "cli.export",
        "export",
        "Export a graph as Nodius JSON, as an n8n workflow or as a Node-RED flow.",
    ),
    "context": ListedCommand(
        "cli.prompt",
        "context",
        "Show the context that a model is given for a question, and why each node is in it.",
    ),
    "tools": ListedCommand(
        "cli.tools",
        "tools",
        "List the tools a model may call on a graph, or run them as a model would; nothing is stored.",
    ),
    "prompt": ListedCommand(
        "cli.prompt",
        "prompt",
        "Show all messages that a model would be sent for a first question, with their tokens.",
    ),
    "embed-nodes": ListedCommand(
        "cli.embed_nodes",
        "embed",
        "Embed the nodes whose vector is missing or older than their text.",
    ),
    "eval": ListedCommand(
        "cli.eval",
        "run_evaluation",
        "Import, embed and score: recall, hits, MRR, and for workflows tokens per context.",
    ),
    "doctor": ListedCommand(
        "cli.doctor",
        "doctor",
        "Check database, embeddings, tokenizer, model, connections. Ends with 1 if something fails.",
    ),
    "backup": ListedCommand(
        "cli.backup",
        "backup",
        "Copy the database while servers use it. From ArangoDB: one workspace, as a folder of JSON.",
    ),
    "restore": ListedCommand(
        "cli.backup",
        "restore",
        "Replace the database by a backup. Stop the servers first; the previous database is kept.",
    ),
    "ask": ListedCommand(
        "cli.ask",
        "ask",
        "Ask one question. Changes are only proposed: they are shown and wait for a decision.",
    ),
    "chat": ListedCommand(
        "cli.chat",
        "chat",
        "Talk about a graph or with an agent; decide proposals. Ctrl-C stops a turn, Ctrl-D ends.",
    ),
    "event": ListedCommand(
        "cli.event",
        "event",
        "Start the automations that wait for an event: a server works on their runs.",
    ),
    "call": ListedCommand(
        "cli.call",
        "call",
        "Call an agent without a telephone, and print the transcript.",
    ),
    "usage": ListedCommand(
        "cli.threads",
        "usage",
        "Show the tokens and the known cost of your conversations, and the limits of this month (UTC).",
    ),
    "trace": ListedCommand(
        "cli.threads",
        "trace",
        "Show the steps of each answer: nodes with scores, calls with time, tokens and cost.",
    ),
    "search": ListedCommand(
        "cli.workspace",
        "search",
        "Search all graphs of the workspace, by words and meaning; the best graphs first.",
    ),
    "uses": ListedCommand(
        "cli.workspace",
        "uses",
        "Show which nodes of all graphs refer to a value: a credential, address, table, queue, file, model.",
    ),
    "replace": ListedCommand(
        "cli.workspace",
        "replace",
        "Propose a replacement in all graphs that refer to a value: one proposal per graph.",
    ),
    "policy": ListedCommand(
        "cli.policy",
        "policy",
        "Show which changes a person must approve; with --set, change it for the workspace or the GRAPH.",
    ),
    "undo": ListedCommand(
        "cli.review",
        "undo",
        "Undo an applied change. Refused when later changes depend on it; none of them is lost.",
    ),
    "graphs": ListedCommand(
        "cli.graphs",
        "graphs",
        "List the graphs of the workspace; make, rename, copy, delete and restore them.",
    ),
    "db": ListedCommand(
        "cli.db",
        "database",
        "Set a database up and check its health.",
    ),
    "threads": ListedCommand(
        "cli.threads",
        "threads",
        "See and delete stored conversations.",
    ),
    "automations": ListedCommand(
        "cli.automations",
        "automations",
        "Prepare tasks that run at set times, and run them.",
    ),
    "sessions": ListedCommand(
        "cli.sessions",
        "sessions",
        "See and control runs of automations.",
    ),
    "agents": ListedCommand(
        "cli.agents",
        "agents",
        "Declarative agents: documents that describe how an assistant works.",
    ),
    "calls": ListedCommand(
        "cli.calls",
        "calls",
        "See, follow and erase telephone calls.",
    ),
    "review": ListedCommand(
        "cli.review",
        "review",
        "See and decide proposed changes.",
    ),
    "codemods": ListedCommand(
        "cli.workspace",
        "codemods",
        "Replacements over many graphs: see, decide and undo them.",
    ),
    "audit": ListedCommand(
        "cli.audit",
        "audit",
        "See the audit log, newest first, or verify it.",
    ),
}
