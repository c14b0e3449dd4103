// A stored conversation as the questions and turns that a page shows. Pure.

// Returns `[{kind: "question", text} | {kind: "turn", events: […], looked: [key…]}]`; events are those of a live turn,
// `looked` the nodes that were retrieved for its question.
//
// System messages are for the model and are left out.
export function itemsOf(messages) {
  const items = [];
  const turn = () => {
    if (items.at(-1)?.kind !== "turn") items.push({ kind: "turn", events: [], looked: items.at(-1)?.looked ?? [] });
    return items.at(-1);
  };
  for (const message of messages ?? []) {
    const content = textOf(message?.content);
    if (message?.role === "user") items.push({ kind: "question", text: content, looked: keysOf(message) });
    else if (message?.role === "assistant") addAnswer(turn(), message, content);
    else if (message?.role === "tool") turn().events.push(resultOf(message, content));
  }
  return items;
}

function addAnswer(turn, message, content) {
  if (content.trim()) {
    const isLater = turn.events.some((event) => event.type === "ai:token");
    turn.events.push({ type: "ai:token", token: isLater ? `\n\n${content}` : content });
  }
  if (message.notInGraph) turn.events.push({ type: "ai:complete", notInGraph: message.notInGraph });
  for (const call of Array.isArray(message.tool_calls) ? message.tool_calls : []) {
    turn.events.push({ type: "ai:tool_start", toolCallId: call.id, toolName: call.function?.name ?? "?", arguments: call.function?.arguments });
  }
}

function resultOf(message, content) {
  return { type: "ai:tool_result", toolCallId: message.tool_call_id, result: content, isError: message.isError === true };
}

const keysOf = (message) => (Array.isArray(message.contextNodes) ? message.contextNodes.filter((key) => typeof key === "string") : []);

function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => (typeof part?.text === "string" ? part.text : "")).join("");
}
