// Where a run stands, as people read it. How it ended, what it found and what waits are three things, never one. Pure.

export const STEPS = ["queued", "reading", "working", "deciding", "applying", "ending"];

const STEP_OF = {
  idle: "queued", executing_enrichments: "reading", calling_ai: "working", parsing_ai_response: "working", executing_data_queries: "working",
  retrying_after_format_error: "working", retrying_after_action_failure: "working", waiting_network_retry: "working",
  waiting_communication_response: "deciding", waiting_validation: "deciding", executing_actions: "applying", waiting_completion_confirmation: "ending",
};

export const isOver = (run) => run.phase === "completed";
// Paused for a conversation, in whatever phase it was; it goes on by itself.
export const isPaused = (run) => !isOver(run) && run.endReason === "SUSPENDED";

// Returns where a run stands in one word: its end, or what it does or waits for.
export function standingOf(run) {
  if (isOver(run)) return `ended.${run.endReason ?? "ERROR"}`;
  return `phase.${isPaused(run) ? "suspended" : run.phase}`;
}

// Returns the line of steps: `[{name, state}]`, state done, now, held (it waits for no step of its own), next or skipped.
export function stepsOf(run) {
  const hasBegun = Boolean(run.startedTime);
  const now = isOver(run) ? STEPS.length : STEPS.indexOf(isPaused(run) && hasBegun ? "working" : STEP_OF[run.phase] ?? "working");
  const isHeld = isPaused(run) || run.phase === "waiting_network_retry";
  return STEPS.map((name, i) => ({ name, state: i === now ? (isHeld ? "held" : "now") : i > now ? "next" : passed(name, run, hasBegun) }));
}

// A step that lies behind was done, unless the run had nothing to do in it.
function passed(name, run, hasBegun) {
  if (name === "queued") return "done";
  if (!hasBegun) return "skipped";
  return ["deciding", "applying"].includes(name) && !run.proposed ? "skipped" : "done";
}

// The tone of an end and of what was found; one never lends its colour to the other.
export const toneOfEnd = (run) => ({ COMPLETED: "plain", CANCELLED: "plain", SUSPENDED: "warn", LIMIT_REACHED: "warn" })[run.endReason] ?? (isOver(run) ? "bad" : "live");
export const toneOfReport = (report) => ({ ok: "good", findings: "warn", failed: "bad" })[report?.outcome] ?? "plain";

// Tokens of a run's model calls.
export const tokensOf = (usage) => (usage?.prompt ?? 0) + (usage?.completion ?? 0);
