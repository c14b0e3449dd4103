// The lines of a graph's history, newest first: what people had applied, and each run of an automation as one. Pure.

export const timeOf = (approval) => approval.decision?.at ?? approval.result?.at ?? approval.created ?? 0;

// Returns `[{at, approval}]` and `[{at, runId, run, approvals}]`; `run` is null where this person does not see it.
export function linesOf(approvals, runs) {
  const ofRun = new Map(runs.map((run) => [run.sessionId, { at: run.startedTime ?? run.scheduledTime, runId: run.sessionId, run, approvals: [] }]));
  const lines = [];
  for (const approval of approvals) {
    const { threadId } = approval;
    if (!approval.automationId || approval.undoes) {
      lines.push({ at: timeOf(approval), approval }); // an undo is a person's
      continue;
    }
    if (!ofRun.has(threadId)) ofRun.set(threadId, { at: approval.scheduledTime ?? timeOf(approval), runId: threadId, run: null, approvals: [] });
    ofRun.get(threadId).approvals.push(approval);
  }
  return [...lines, ...ofRun.values()].sort((one, other) => other.at - one.at);
}
