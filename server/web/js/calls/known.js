// What is known of a call: its stored record, and what comes of it while it goes on. Pure.

export const isLive = (call) => call.status !== "ended";

// Returns what is known from the stored record, which may be a second behind: what came live before stays, and so do the
// words that nobody heard. Of a call that was forgotten nothing does.
export function knownOf(call, before = null) {
  const live = call.forgottenTime ? null : before;
  const said = (call.transcript ?? []).map((entry) => {
    const unheard = entry.unheard ?? (entry.interrupted ? live?.said.find((one) => one.itemId === entry.itemId)?.unheard : "");
    return { itemId: entry.itemId, role: entry.role, text: entry.content, isFinal: true, isInterrupted: Boolean(entry.interrupted), unheard: (unheard ?? "").trim() };
  });
  const stored = (call.sources ?? []).flatMap((one) => one.nodes);
  return {
    call, said: withRest(said, live?.said, "itemId"), tools: withRest(call.tools ?? [], live?.tools, "toolCallId"), graph: call.sources?.at(-1)?.graph ?? live?.graph ?? null,
    nodes: [...new Set([...stored, ...(live?.nodes ?? [])])], lit: call.sources?.at(-1)?.nodes ?? live?.lit ?? [],
    approvals: [...new Set([...(call.approvals ?? []).map((one) => one.approvalId ?? one), ...(live?.approvals ?? [])])],
  };
}

function withRest(stored, live, name) {
  const known = new Set(stored.map((one) => one[name]));
  return [...stored, ...(live ?? []).filter((one) => !known.has(one[name]))];
}

// Returns what is known after something came of the call.
export function withNews(known, event) {
  return NEWS[event.type]?.(known, event) ?? known;
}

const NEWS = {
  "call:state": (known, { type: _, _id: __, ...facts }) => ({ ...known, call: { ...known.call, ...facts } }),
  "call:ended": (known, { outcome, reason }) => ({ ...known, call: { ...known.call, status: "ended", outcome, endReason: reason } }),
  "call:said": (known, event) => ({ ...known, said: put(known.said, "itemId", event.itemId, (before) => saidOf(before, event)) }),
  "call:tool": (known, { toolCallId, name, ok, ms, status, phase }) => ({
    ...known, tools: put(known.tools, "toolCallId", toolCallId, (before) => ({ ...before, toolCallId, name, ok, ms, status, isRunning: phase === "started" })),
  }),
  "call:sources": (known, { nodes, graph }) => ({ ...known, graph: graph ?? known.graph, lit: nodes, nodes: [...new Set([...known.nodes, ...nodes])] }),
  "call:proposal": (known, { approvalId }) => ({ ...known, approvals: [...new Set([...known.approvals, approvalId])] }),
};

function put(entries, name, id, make) {
  const at = entries.findIndex((one) => one[name] === id);
  return at < 0 ? [...entries, make(null)] : entries.with(at, make(entries[at]));
}

// An answer that got shorter was interrupted: what it lost is what nobody heard.
function saidOf(before, { itemId, role, text, final, interrupted, unheard }) {
  const isShorter = role === "assistant" && before !== null && before.text !== text && before.text.startsWith(text);
  const isInterrupted = Boolean(interrupted || isShorter || before?.isInterrupted);
  const lost = isShorter ? before.text.slice(text.length).trim() : before?.unheard ?? "";
  return { itemId, role, text, isFinal: Boolean(final), isInterrupted, unheard: isInterrupted ? unheard ?? lost : "" };
}
