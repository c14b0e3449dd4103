// The audit log of a graph or of all: who decided what, with filters, its check, files of it, and printing.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { saveText } from "../download.js";
import { personName, timeText } from "../names.js";
import { csvOf } from "./audit-table.js";
import { loadApprovals, readApproval } from "./book.js";
import { createFilterBar } from "./filter-bar.js";
import { ENTRIES } from "./filters.js";
import { auditEntries } from "./service.js";

const READ = 1000; // the latest entries: as many as the service gives at once
const SHOWN = 100; // of those that pass the filters; files hold all
const LEARNED = 200; // of the latest approvals, read at once to say what entries are about

// Returns the log as a part that is read when it is opened.
export function createAudit(app, graphKey) {
  const { t, store } = app;
  const list = h("ol.audit-list");
  const said = h("p.note", { role: "status" });
  const log = { entries: [], chosen: {} };
  const bar = createFilterBar(app, ENTRIES, { onChoose: (name, value) => ((log.chosen = { ...log.chosen, [name]: value }), draw()), valueName });
  const button = (key, onclick) => h("button", { type: "button", onclick }, t(key));
  const box = h("details.audit-box", h("summary", t("audit.title")), h("p.note", t("audit.hint")),
    h("div.card-buttons", button("audit.verify", verify), button("audit.csv", () => saveText(csvOf(chosen().map(rowOf)), "audit.csv", "text/csv")),
      button("audit.json", () => saveText(JSON.stringify(chosen(), null, 2), "audit.json", "application/json")), button("audit.print", () => print())),
    said, bar.element, list);
  box.addEventListener("toggle", () => box.open && fill());
  return box;

  function valueName(name, value) {
    if (name === "person") return personName(app, value);
    if (name === "graph") return (store.get().graphs ?? []).find((one) => one.graphKey === value)?.name ?? value;
    return t(name === "age" ? `filter.age.${value}` : `audit.${value}`);
  }

  function chosen() {
    return log.entries.filter((one) => ENTRIES.passes(one, log.chosen));
  }

  async function fill() {
    try {
      log.entries = await auditEntries(app.api, graphKey, READ);
      const people = new Set(log.entries.flatMap((entry) => [entry.userId, entry.asker]));
      await Promise.all([learn(log.entries.slice(0, SHOWN)), ...[...people].map(app.people.named)]);
      draw();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(list, h("li.warn-text", error.message));
    }
  }

  function draw() {
    const found = chosen();
    bar.draw(log.entries, log.chosen);
    replace(list, found.slice(0, SHOWN).map(entryLine));
    if (!found.length) list.append(h("li.note", log.entries.length ? t("audit.none_fit") : t("audit.empty")));
    if (found.length > SHOWN) list.append(h("li.note", t("audit.more", { n: found.length - SHOWN })));
  }

  function entryLine(entry) {
    const what = whatOf(entry);
    const asker = entry.asker && entry.asker !== entry.userId ? ` · ${t("card.asked_by", { who: personName(app, entry.asker) })}` : "";
    return h("li", h("time", timeText(entry.at, store.get().lang)), ` ${personName(app, entry.userId)} · ${t(`audit.${entry.event}`)}`,
      what ? [" · ", h("strong.audit-what", what)] : "", asker, entry.feedback ? h("span.card-feedback", ` “${entry.feedback}”`) : "");
  }

  // Reads the approvals that entries are about, so that each can say what was changed.
  async function learn(entries) {
    const isUnknown = ({ approvalId }) => approvalId && !store.get().approvals.has(approvalId);
    if (entries.some(isUnknown)) await loadApprovals(app, { limit: LEARNED, graphKey });
    for (const id of new Set(entries.filter(isUnknown).map((entry) => entry.approvalId))) await readApproval(app, id);
  }

  function whatOf({ approvalId, file }) {
    return store.get().approvals.get(approvalId)?.title ?? (file ? t("title_import", { file }) : "");
  }

  function rowOf(entry) {
    const { sequence, at, workspace, graphKey: graph, event, userId, asker, approvalId, feedback, hash } = entry;
    return { sequence, at: new Date(at).toISOString(), workspace, graph, event, by: userId, asker, approval: approvalId, what: whatOf(entry), feedback, hash };
  }

  async function verify() {
    try {
      const found = await app.api.get("/api/audit/verify");
      said.className = found.sound ? "note ok-text" : "warn-text";
      said.textContent = t(found.sound ? "audit.sound" : "audit.unsound", { n: found.entries, faults: found.faults.join("; ") });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      said.textContent = error.message;
    }
  }
}
