// Fields in which a person writes while others change the graph. What is typed is a draft: it is stored when the person
// says so, and nothing that comes from elsewhere is put into it.

import { h } from "../dom.js";

// Binds an input to a stored text. `save(text)` resolves to whether it was taken, or to a text that says what is wrong.
// Enter (in several lines with Ctrl) and leaving the field save, Escape brings the stored text back. Returns {hint, show(stored), leave(), drop()}.
export function createDraft(field, { t, stored, save, isRequired = false }) {
  const hint = h("p.stale.muted", { role: "status", hidden: true });
  let base = stored;
  let sent = null; // what is on its way to the store
  let isConflict = false; // others changed the stored text meanwhile
  let isDropped = false;
  field.value = base;
  field.dataset.safe = ""; // it is stored when it is left

  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing && (field.tagName === "INPUT" || event.ctrlKey || event.metaKey)) {
      isConflict = false; // the person has read the hint
      field.blur();
    } else if (event.key === "Escape") {
      take(base);
      field.blur();
    }
  });
  field.addEventListener("input", () => isConflict || say(""));
  field.addEventListener("blur", () => {
    const isStillThere = document.activeElement === field; // only the window was left
    if (!isStillThere && !isDropped && !isConflict) commit();
  });

  const isTouched = () => field.value !== base;

  function say(text) {
    hint.textContent = text;
    hint.hidden = !text;
  }

  function take(text) {
    base = text;
    sent = null;
    isConflict = false;
    say("");
    if (field.value === text) return;
    const { selectionStart, selectionEnd } = field;
    field.value = text;
    if (document.activeElement === field) field.setSelectionRange(selectionStart, selectionEnd);
  }

  async function commit() {
    const wanted = field.value.trim();
    if (!isTouched() || wanted === sent) return;
    if (wanted === base || (isRequired && !wanted)) {
      take(base);
      return;
    }
    sent = wanted;
    const isTaken = await save(wanted);
    if (sent === wanted) sent = null;
    if (isTaken !== true && !isDropped) say(isTaken || t("inspector.not_saved"));
  }

  // The stored text is this now: shown at once where nothing is being written.
  function show(text) {
    if (text === base) return;
    if (!isTouched() || field.value.trim() === text) {
      take(text);
      return;
    }
    base = text;
    if (text === sent) return; // ours, and the person types on
    isConflict = true;
    say(t("inspector.changed_to", { value: text }));
  }

  // The person turns to something else: what was written is saved, unless others changed it meanwhile.
  function leave() {
    if (!isDropped && !isConflict) commit();
    isDropped = true;
  }

  return { hint, show, leave, drop: () => (isDropped = true), get isTouched() { return isTouched(); } };
}

// A text area with "save" and "cancel". `save(text, {base, seen})` resolves to nothing, to a text that says what is wrong,
// or to `{theirs}`, what others stored meanwhile, which is shown before the next "save": then that is `seen`.
// Returns {element, show(stored), focus()}.
export function createAreaDraft({ t, stored, label, save, onEnd }) {
  const area = h("textarea.code", { value: stored, rows: Math.min(18, Math.max(5, stored.split("\n").length + 1)), spellcheck: "false", "aria-label": label });
  const problem = h("p.problem", { role: "alert", hidden: true });
  const hint = h("p.stale.muted", { role: "status", hidden: true }, t("inspector.changed_meanwhile"));
  const others = h("pre.code", { tabIndex: 0, hidden: true, "aria-label": t("inspector.theirs") });
  let seen = null;

  async function commit() {
    const wrong = await save(area.value, { base: stored, seen });
    seen = wrong?.theirs ?? null;
    others.hidden = seen === null;
    others.textContent = seen ?? "";
    problem.textContent = seen === null ? wrong ?? "" : t("inspector.theirs_first");
    problem.hidden = !wrong;
    if (wrong) area.focus();
    else onEnd();
  }

  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") (event.stopPropagation(), onEnd());
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) commit();
  });
  const element = h("section", h("h3", label), hint, area, problem, others,
    h("div.dialog-actions", h("button", { type: "button", onclick: onEnd }, t("app.cancel")), h("button.primary", { type: "button", onclick: commit }, t("inspector.save"))));

  function focus() {
    area.setSelectionRange(0, 0);
    area.focus();
    area.scrollTop = 0;
  }

  return { element, focus, show: (text) => (hint.hidden = text === stored) };
}
