"""Says what foreign node types are called and do."""

from __future__ import annotations

import re
from collections.abc import Mapping

from graphrag.importers.workflow_draft import TypeFacts

NOTE_FACTS = TypeFacts(
    display_name="Note",
    description="A text written on the canvas; it has no effect on the workflow.",
    category="note",
    icon="StickyNote",
)
GROUP_FACTS = TypeFacts(
    display_name="Group",
    description="A frame around nodes that belong together.",
    category="note",
    icon="Group",
)

_ICONS = {
    "trigger": "Zap",
    "action": "Box",
    "flow": "GitBranch",
    "ai": "Bot",
    "code": "Code",
    "data": "Database",
    "config": "Settings",
    "subflow": "Workflow",
}

_WORDS = {
    "ai": "AI", "api": "API", "aws": "AWS", "csv": "CSV", "css": "CSS", "crm": "CRM", "ftp": "FTP",
    "graphql": "GraphQL", "github": "GitHub", "gitlab": "GitLab", "hubspot": "HubSpot", "html": "HTML",
    "http": "HTTP", "id": "ID", "imap": "IMAP", "json": "JSON", "jwt": "JWT", "linkedin": "LinkedIn",
    "llm": "LLM", "lm": "LLM", "mcp": "MCP", "mongodb": "MongoDB", "mqtt": "MQTT", "mysql": "MySQL",
    "nocodb": "NocoDB", "ocr": "OCR", "openai": "OpenAI", "pdf": "PDF", "rest": "REST", "rpc": "RPC",
    "rss": "RSS", "s3": "S3", "sms": "SMS", "sql": "SQL", "ssh": "SSH", "tcp": "TCP", "udp": "UDP",
    "url": "URL", "woocommerce": "WooCommerce", "wordpress": "WordPress", "xml": "XML", "youtube": "YouTube",
    "chatgpt": "ChatGPT", "deepseek": "DeepSeek", "ui": "UI", "whatsapp": "WhatsApp", "n8n": "n8n",
}  # fmt: skip
_COMPOUNDS = (
    "OpenAi",
    "MySql",
    "GraphQl",
    "WhatsApp",
    "YouTube",
    "LinkedIn",
    "MongoDb",
    "NocoDb",
    "PostgreSql",
    "DeepSeek",
)
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*(?![a-z])|[A-Z]+[0-9]*|[0-9]+|[^\W_a-zA-Z0-9]+")

_N8N_NAMES = {
    "set": "Edit Fields (Set)",
    "if": "If",
    "noOp": "No Operation",
    "splitInBatches": "Loop Over Items (Split in Batches)",
    "executeWorkflow": "Execute Sub-workflow",
    "executeWorkflowTrigger": "When Executed by Another Workflow",
    "manualTrigger": "Manual Trigger",
    "agent": "AI Agent",
    "memoryManager": "Chat Memory Manager",
    "documentDefaultDataLoader": "Default Data Loader",
    "memoryBufferWindow": "Simple Memory (Window Buffer)",
    "textSplitterCharacterTextSplitter": "Character Text Splitter",
    "chainLlm": "Basic LLM Chain",
    "emailReadImap": "Email Trigger (IMAP)",
    "emailSend": "Send Email",
}

_N8N_TEXTS: Mapping[str, tuple[str, str]] = {
    "httpRequest": ("action", "Calls a URL and returns the response."),
    "webhook": ("trigger", "Starts the workflow when its URL is called."),
    "respondToWebhook": ("action", "Answers the HTTP call that a webhook received."),
    "manualTrigger": ("trigger", "Starts the workflow by hand."),
    "scheduleTrigger": ("trigger", "Starts the workflow at set times."),
    "cron": ("trigger", "Starts the workflow at set times."),
    "interval": ("trigger", "Starts the workflow at a fixed interval."),
    "start": ("trigger", "Starts the workflow by hand."),
    "errorTrigger": ("trigger", "Starts the workflow when another one fails."),
    "formTrigger": ("trigger", "Starts the workflow when a form is sent."),
    "chatTrigger": ("trigger", "Starts the workflow with a chat message."),
    "executeWorkflowTrigger": ("trigger", "Starts the workflow when another workflow calls it."),
    "emailReadImap": ("trigger", "Starts the workflow when an email arrives."),
    "set": ("data", "Sets, renames or removes fields of the items."),
    "code": ("code", "Runs JavaScript or Python on the items."),
    "function": ("code", "Runs JavaScript on all items."),
    "functionItem": ("code", "Runs JavaScript on each item."),
    "if": ("flow", "Sends items to true or false by a condition."),
    "switch": ("flow", "Sends items to one of several outputs by rules."),
    "filter": ("flow", "Keeps the items that meet a condition."),
    "merge": ("flow", "Joins the items of several inputs."),
    "splitInBatches": ("flow", "Loops over items in batches."),
    "splitOut": ("data", "Makes one item of each element of a list."),
    "aggregate": ("data", "Gathers many items into one."),
    "summarize": ("data", "Counts, sums or groups items like a pivot table."),
    "sort": ("data", "Orders items."),
    "limit": ("data", "Keeps a number of items."),
    "removeDuplicates": ("data", "Removes items that are the same."),
    "compareDatasets": ("flow", "Compares the items of two inputs."),
    "wait": ("flow", "Waits for a time, a date or a call."),
    "noOp": ("flow", "Passes items on unchanged."),
    "stopAndError": ("flow", "Stops the workflow with an error."),
    "executeWorkflow": ("flow", "Runs another workflow."),
    "dateTime": ("data", "Calculates with dates and formats them."),
    "html": ("data", "Makes HTML or extracts values from it."),
    "markdown": ("data", "Converts between Markdown and HTML."),
    "extractFromFile": ("data", "Reads the content of a file into items."),
    "convertToFile": ("data", "Writes items into a file."),
    "readWriteFile": ("data", "Reads and writes files on disk."),
    "emailSend": ("action", "Sends an email."),
    "agent": ("ai", "Lets a language model decide which tools to use to do a task."),
    "chainLlm": ("ai", "Sends a prompt to a language model."),
    "chainSummarization": ("ai", "Summarises text with a language model."),
    "chainRetrievalQa": ("ai", "Answers questions from retrieved documents."),
    "informationExtractor": ("ai", "Extracts structured data from text with a language model."),
    "textClassifier": ("ai", "Sorts texts into categories with a language model."),
    "sentimentAnalysis": ("ai", "Tells the sentiment of a text with a language model."),
}

_N8N_PARTS = (
    ("lmChat", "Chat Model"),
    ("lm", "Model"),
    ("memory", "Memory"),
    ("tool", "Tool"),
    ("outputParser", "Output Parser"),
    ("embeddings", "Embeddings"),
    ("textSplitter", "Text Splitter"),
    ("vectorStore", "Vector Store"),
    ("retriever", "Retriever"),
    ("reranker", "Reranker"),
)

_N8N_KINDS = {
    "ai_languageModel": "A language model for AI nodes.",
    "ai_memory": "Keeps the conversation of AI nodes.",
    "ai_tool": "A tool that an AI agent can call.",
    "ai_outputParser": "Brings the answer of a language model into a set form.",
    "ai_embedding": "Turns text into vectors.",
    "ai_textSplitter": "Cuts text into chunks.",
    "ai_document": "Loads documents for a vector store.",
    "ai_retriever": "Finds documents for a question.",
    "ai_vectorStore": "Keeps vectors and finds the nearest.",
    "ai_reranker": "Orders found documents by relevance.",
}

_RED_TEXTS: Mapping[str, tuple[str, str]] = {
    "inject": ("trigger", "Starts a flow by hand, at an interval or at set times."),
    "debug": ("action", "Shows messages in the debug sidebar."),
    "complete": ("trigger", "Starts a flow when another node is done."),
    "catch": ("trigger", "Starts a flow when a node raises an error."),
    "status": ("trigger", "Starts a flow when a node reports its status."),
    "link in": ("flow", "Continues a flow from link out nodes."),
    "link out": ("flow", "Passes messages to link in nodes."),
    "link call": ("flow", "Calls the flow of a link in node and waits for its return."),
    "junction": ("flow", "Joins and splits wires."),
    "function": ("code", "Runs JavaScript on each message."),
    "switch": ("flow", "Routes messages by rules."),
    "change": ("data", "Sets, changes, moves or deletes message properties."),
    "range": ("data", "Scales a number to another range."),
    "template": ("data", "Fills a text template from the message."),
    "delay": ("flow", "Delays messages or limits their rate."),
    "trigger": ("flow", "Sends a message, then another after a time without input."),
    "exec": ("action", "Runs a command of the operating system."),
    "rbe": ("flow", "Passes a message only when its value changed."),
    "filter": ("flow", "Passes a message only when its value changed."),
    "mqtt in": ("trigger", "Starts a flow with messages of an MQTT topic."),
    "mqtt out": ("action", "Publishes messages to an MQTT topic."),
    "http in": ("trigger", "Starts a flow when a URL is called."),
    "http response": ("action", "Answers an HTTP call."),
    "http request": ("action", "Calls a URL and returns the response."),
    "websocket in": ("trigger", "Starts a flow with messages of a WebSocket."),
    "websocket out": ("action", "Sends messages to a WebSocket."),
    "split": ("data", "Splits a message into a sequence of messages."),
    "join": ("data", "Joins a sequence of messages into one."),
    "sort": ("data", "Orders a sequence of messages."),
    "batch": ("data", "Makes sequences of messages."),
    "csv": ("data", "Converts between CSV and objects."),
    "json": ("data", "Converts between JSON and objects."),
    "html": ("data", "Extracts elements from HTML."),
    "xml": ("data", "Converts between XML and objects."),
    "file": ("action", "Writes messages to a file."),
    "file in": ("action", "Reads a file."),
    "watch": ("trigger", "Starts a flow when a file changes."),
    "mqtt-broker": ("config", "The connection to an MQTT broker."),
    "websocket-listener": ("config", "A WebSocket that listens."),
    "subflow-in": ("subflow", "Where messages enter a subflow."),
    "subflow-out": ("subflow", "Where messages leave a subflow."),
    "subflow-status": ("subflow", "What a subflow reports as its status."),
}


def humanise(name: str) -> str:
    """Return a type's technical name as words: `httpRequest` becomes `HTTP Request`."""
    if name.islower():
        parts = re.split(r"[\s_.:/-]+", name)
    else:
        for compound in _COMPOUNDS:
            name = re.sub(compound, compound.capitalize(), name, flags=re.IGNORECASE)
        parts: list[str] = _PARTS.findall(name)
    words = [_WORDS.get(part.lower()) or part[:1].upper() + part[1:] for part in parts if part]
    return " ".join(words) or name.strip() or "Node"


def n8n_facts(short: str, *, langchain: bool, trigger: bool, subnode: str | None) -> TypeFacts:
    """Return what is known of an n8n type by the last part of its name."""
    known = _N8N_TEXTS.get(short)
    if known:
        category, text = known
    elif subnode:
        category, text = "ai", _N8N_KINDS.get(subnode, "A part of an AI node.")
    elif trigger:
        category, text = "trigger", "Starts the workflow when something happens there."
    elif short.startswith("vectorStore"):
        category, text = "ai", _N8N_KINDS["ai_vectorStore"]
    elif langchain:
        category, text = "ai", "A step of AI processing."
    else:
        category, text = "action", "An n8n action."
    return _facts(_N8N_NAMES.get(short) or _part_name(short) or humanise(short), text, category)


def _part_name(short: str) -> str | None:
    """Return the name of a part of an AI node as n8n shows it: `toolWikipedia` is `Wikipedia Tool`."""
    for prefix, noun in _N8N_PARTS:
        kind = short.removeprefix(prefix)
        if kind != short and kind[:1].isupper():
            own = "".join(noun.split())
            return f"{humanise(kind.removesuffix(own) or kind)} {noun}"
    return None


def red_facts(name: str, *, config: bool = False) -> TypeFacts:
    """Return what is known of a Node-RED type."""
    category, text = _RED_TEXTS.get(name) or (
        ("config", "Settings that other nodes share.") if config else ("action", "A Node-RED node.")
    )
    return _facts(humanise(name), text, category)


def subflow_facts(name: str, info: str) -> TypeFacts:
    """Return what is said of the instances of a subflow; `info` is its author's text."""
    first = info.strip().split("\n", 1)[0][:200]
    return _facts(f"Subflow: {name}", first or "Runs a flow that is drawn on its own sheet.", "subflow")


def _facts(display_name: str, description: str, category: str) -> TypeFacts:
    return TypeFacts(
        display_name=display_name,
        description=description,
        category=category,
        icon=_ICONS.get(category, "Box"),
    )
