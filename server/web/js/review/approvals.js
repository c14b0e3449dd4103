// An approval as the page holds it, whether it came with a turn, from a list or from the audit log. Pure.

const OPEN = new Set(["pending"]);

// From what a turn ends with while proposals wait.
export function fromInterrupt(waiting, known = {}) {
  return {
    id: waiting.id,
    toolCallId: waiting.toolCallId,
    status: "pending",
    title: titled(waiting.title),
    action: waiting.action,
    preview: waiting.preview ?? {},
    reason: waiting.reason ?? "",
    dependsOn: waiting.dependsOn ?? [],
    expires: waiting.expiresAt,
    graphKey: known.graphKey,
    threadId: known.threadId,
    asker: known.asker,
    model: known.model,
    decision: null,
    result: null,
    outcome: "",
  };
}

// From the service's own form; after an edit, what was carried out stands in place of what was proposed.
export function fromDocument(document) {
  const decision = document.decision ?? null;
  return {
    id: document.id,
    toolCallId: document.toolCallId,
    status: document.status,
    title: titled(document.title),
    action: decision?.action ?? document.action,
    preview: decision?.preview ?? document.preview ?? {},
    proposed: document.action,
    reason: document.reason ?? "",
    dependsOn: document.dependsOn ?? [],
    expires: document.expiresTime,
    created: document.createdTime,
    graphKey: document.graphKey,
    threadId: document.threadId,
    turn: document.turn,
    asker: document.userId,
    model: document.model,
    decision,
    result: document.result ?? null,
    undoes: document.undoes ?? null,
    undoesAlso: document.undoesAlso ?? [],
    undoneBy: document.undoneBy ?? null,
    outcome: document.outcome ?? "",
  };
}

const titled = (text) => text[0].toUpperCase() + text.slice(1);

export const isOpen = (approval) => OPEN.has(approval.status);

export const isExpired = (approval, now = Date.now()) => isOpen(approval) && approval.expires <= now;

// The state that a person is told: an applied change may have been taken back, an edit is told as one.
export function stateOf(approval, now = Date.now()) {
  if (isExpired(approval, now)) return "expired";
  if (approval.status === "applied" && approval.undoneBy) return "undone";
  if (approval.status === "applied" && approval.undoes) return "undo";
  if (approval.status === "applied" && approval.decision?.verdict === "approve_edited") return "edited";
  return approval.status;
}

// The approvals of `all` that must be decided before this one.
export function waitsFor(approval, all) {
  return approval.dependsOn.map((id) => all.find((other) => other.id === id)).filter((other) => other && isOpen(other));
}

// The applied changes of `all` that were asked for in the same turn as this one, it included.
export function ofTurn(approval, all) {
  return all.filter((one) => one.threadId === approval.threadId && one.turn === approval.turn && one.status === "applied" && !one.undoneBy && !one.undoes);
}

// Open approvals so that each stands after those it builds on.
export function inOrder(approvals) {
  const left = approvals.filter(isOpen);
  const done = [];
  while (left.length) {
    const next = left.findIndex((one) => !left.some((other) => one.dependsOn.includes(other.id)));
    done.push(...left.splice(Math.max(next, 0), 1));
  }
  return done;
}

// What a preview holds, counted by kind.
export function counts(preview) {
  return Object.fromEntries(Object.entries(preview ?? {}).filter(([, items]) => Array.isArray(items)).map(([kind, items]) => [kind, items.length]));
}
