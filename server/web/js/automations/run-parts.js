// What a run wrote: its report, and what was said in it.

import { itemsOf } from "../chat/history.js";
import { createQuestion, createTurn } from "../chat/turn.js";
import { h } from "../dom.js";

export const STILL = { stay() {}, say() {} }; // a log that does not scroll

export function reportOf(app, { report }) {
  const turn = createTurn(app, STILL);
  turn.take({ type: "ai:token", token: report.text });
  turn.end();
  return h("section.auto-report", h("h3", app.t("auto.report")), turn.element);
}

// What was said, with the service's notes where they were made.
export function saidIn(app, { messages, notes = [] }, { isOpen }) {
  const parts = [];
  let from = 0;
  for (const note of [...notes, { after: messages.length }]) {
    parts.push(...itemsOf(messages.slice(from, note.after)).map((item) => itemElement(app, item)));
    if (note.summary || note.content) parts.push(h("p.auto-note", note.summary || note.content));
    from = Math.max(from, note.after);
  }
  return h("details.auto-messages", { open: isOpen }, h("summary", app.t("auto.messages")), h("div.auto-log", parts));
}

function itemElement(app, item) {
  if (item.kind === "question") return createQuestion(app, item.text);
  const turn = createTurn(app, STILL);
  item.events.forEach((event) => (event.type === "ai:tool_start" ? turn.startTool(event.toolCallId, event.toolName, event.arguments) : turn.take(event)));
  turn.end();
  return turn.element;
}
