// The one Map of approvals in the page's store: what the server pushes, lists answer and decisions return.

import { ApiError } from "../api.js";
import { fromDocument, isOpen } from "./approvals.js";
import { decide, getApproval, listApprovals } from "./service.js";

const MOST = 1000; // more are forgotten, those that came first and are decided

// Takes in the service's documents; returns the approvals as the page has them now. The same news change nothing.
export function take(app, documents) {
  const approvals = new Map(app.store.get().approvals);
  let isOther = false;
  for (const document of documents) {
    const text = JSON.stringify(document);
    const before = approvals.get(document.id);
    if (before?.text === text || (before && !isOpen(before) && document.status === "pending")) continue; // older news
    const isKnown = document.shortened && before && !before.shortened && before.status === document.status;
    const { action, preview, codeDiffs } = before ?? {};
    approvals.set(document.id, { ...fromDocument(document), ...(isKnown ? { action, preview, codeDiffs, shortened: false } : {}), text });
    isOther = true;
  }
  const found = documents.map(({ id }) => approvals.get(id));
  for (const [id, one] of approvals) {
    if (approvals.size <= MOST) break;
    if (!isOpen(one)) approvals.delete(id);
  }
  if (isOther) app.store.set({ approvals });
  return found;
}

// Reads one from the service. Rejects with ApiError.
export async function readApproval(app, id) {
  return take(app, [await getApproval(app.api, id)])[0];
}

// Lists from the service; see listApprovals. Rejects with ApiError.
export async function loadApprovals(app, filter) {
  return take(app, (await listApprovals(app.api, filter)).approvals);
}

// Sends one verdict on several at once; what is refused is said. Resolves to those whose decision was taken.
export const decideAll = (app, approvals, verdict, feedback = "") => app.keys.until(sendAll(app, approvals, verdict, feedback));

async function sendAll(app, approvals, verdict, feedback) {
  try {
    const { approvals: documents, refused } = await decide(app.api, approvals.map((one) => one.id), verdict, feedback);
    const decided = take(app, documents);
    decided.forEach((one) => app.canvas.markDone(one));
    if (refused.length) app.toast("warn", app.t("review.refused", { n: refused.length, reason: refused[0].message }));
    return decided;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    app.toast("error", error.message);
    return [];
  }
}
