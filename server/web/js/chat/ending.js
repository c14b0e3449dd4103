// How a turn ended, read from its `ai:complete`. Pure.

// Returns `{kind: "answer"}`, `{kind: "limit", …}`, `{kind: "question"}` or `{kind: "proposals", approvals}`.
//
// An answer may itself look like such a document: a limit counts only after its own event, and what
// is asked and what approvals are named has to be asked of the server before a person is shown any.
export function endingOf(complete, limit) {
  const document = parsed(complete.fullText);
  if (limit) return { kind: "limit", used: limit.roundsUsed, max: limit.maxExtended };
  if (document?.type === "interrupt" && Array.isArray(document.approvals)) {
    return { kind: "proposals", approvals: document.approvals.filter((one) => typeof one?.id === "string") };
  }
  if (document?.type === "question") return { kind: "question" };
  return { kind: "answer", text: complete.fullText ?? "", isStopped: complete.stopped === true };
}

function parsed(text) {
  if (typeof text !== "string" || !text.startsWith("{")) return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
