// The phases of a conversation: what it waits for, and what leads from one to another. Pure.
//
// idle: for a question · loading: for what is stored · busy: for the answer · following: for the answer to another
// tab's question · waiting: for decisions · limit: for more rounds of tools · question: for an answer · elsewhere: for a turn that runs where its
// words cannot be seen · lost: for the connection, to show what the server kept of a turn.

const STARTS = { send: "busy", resumed: "busy", follow: "following" };
const ENDS = { answered: "idle", proposed: "waiting", limited: "limit", asked: "question", failed: "idle", lost: "lost" };
const ANY = { clear: "idle", open: "loading" };

export const PHASES = {
  idle: { ...ANY, ...STARTS, ...ENDS, running: "elsewhere" },
  loading: { ...ANY, shown: "idle" },
  busy: { ...ANY, ...ENDS },
  following: { ...ANY, ...ENDS },
  waiting: { ...ANY, ...STARTS, ...ENDS },
  limit: { ...ANY, ...STARTS, ...ENDS },
  question: { ...ANY, ...STARTS, ...ENDS },
  elsewhere: { ...ANY, ...STARTS, ...ENDS },
  lost: { ...ANY, ...STARTS, connected: "idle" },
};

// Returns the phase after an event; one that means nothing in a phase, such as late news, changes nothing.
export function nextPhase(phase, event) {
  return PHASES[phase][event] ?? phase;
}
