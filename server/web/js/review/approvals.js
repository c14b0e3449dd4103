// An approval as the page holds it, whether it came with a turn, from a list or from the audit log. Pure.

// From the service's own form; after an edit, what was carried out stands in place of what was proposed.
export function fromDocument(document) {
  const { decision = null, title, userId, expiresTime, createdTime } = document;
  return {
    reason: "", dependsOn: [], undoesAlso: [], outcome: "", result: null, undoes: null, undoneBy: null,
    ...document,
    decision,
    title: title[0].toUpperCase() + title.slice(1),
    action: decision?.action ?? document.action,
    preview: decision?.preview ?? document.preview ?? {},
    asker: userId,
    expires: expiresTime,
    created: createdTime,
  };
}

export const isOpen = (approval) => approval.status === "pending";

export const isExpired = (approval, now = Date.now()) => isOpen(approval) && approval.expires <= now;

// The state that a person reads: an applied change may have been undone, or approved with changes.
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

// What a preview holds, counted by kind.
export function counts(preview) {
  return Object.fromEntries(Object.entries(preview ?? {}).filter(([, items]) => Array.isArray(items)).map(([kind, items]) => [kind, items.length]));
}
