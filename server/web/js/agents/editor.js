// The text of a document, with what is wrong marked where it stands and listed below.

import { h, replace } from "../dom.js";
import { placed, problemText } from "./places.js";

// Returns `{element, text, set(text), show(problems), goTo(path), goToPlace({at, line})}`; a problem is `{where, what, allowed?, isWarning?}`.
export function createEditor({ t }, { text, label, isReadOnly }) {
  const marks = h("pre.doc-marks", { "aria-hidden": "true" });
  const list = h("ol.doc-problems", { id: "doc-problems", "aria-label": t("agents.problems"), hidden: true });
  const field = h("textarea.doc-text", { value: text, rows: 18, spellcheck: "false", autocomplete: "off", wrap: "off", readonly: isReadOnly, "aria-label": label, "aria-describedby": list.id });
  const element = h("div.doc", h("div.doc-box", marks, field), list);
  let problems = [];
  field.addEventListener("scroll", follow);
  field.addEventListener("input", () => show([]));
  return { element, field, get text() { return field.value; }, set, show, goTo, goToPlace };

  function set(value) {
    field.value = value;
    show([]);
  }

  function follow() {
    marks.scrollTop = field.scrollTop;
    marks.scrollLeft = field.scrollLeft;
  }

  // Marks and lists what is wrong, and goes to the first unless nobody asked.
  function show(found, { isAsked = true } = {}) {
    problems = placed(field.value, found).sort((one, other) => Boolean(one.isWarning) - Boolean(other.isWarning) || one.line - other.line);
    list.hidden = !problems.length;
    replace(list, problems.map((problem) => h("li", { class: problem.isWarning ? "is-warning" : undefined },
      problem.place ? h("button.link", { type: "button", onclick: () => go(problem) }, t("agents.line", { n: problem.line })) : "", " ",
      h("code", problem.where), ` ${problemText(t, problem)}`)));
    if (problems.some((one) => !one.isWarning)) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    draw();
    const first = problems.find((one) => one.place);
    if (first && isAsked) go(first);
  }

  // The same text under the field, unseen but for its marks and, at the end of their lines, what is wrong.
  function draw() {
    const { value } = field;
    const shown = problems.filter((one) => one.place).sort((one, other) => one.place[0] - other.place[0]);
    const parts = [];
    let from = 0;
    for (const { place, isWarning, what } of shown) {
      if (place[0] < from) continue; // two at one place: the list has both
      const end = value.indexOf("\n", place[1]) < 0 ? value.length : value.indexOf("\n", place[1]);
      parts.push(value.slice(from, place[0]), h("mark", { class: isWarning ? "is-warning" : undefined }, value.slice(...place)), value.slice(place[1], end), h("span.doc-said", { class: isWarning ? "is-warning" : undefined }, `  ◂ ${what}`));
      from = end;
    }
    replace(marks, parts, value.slice(from), "\n");
    follow();
  }

  // Goes to the value at a path, or to what is nearest around it.
  function goTo(where) {
    const [found] = placed(field.value, [{ where }]);
    if (found.place) go(found);
    else field.focus();
  }

  function goToPlace({ at, line }) {
    go({ place: [at, Math.min(at + 1, field.value.length)], line });
  }

  function go({ place, line }) {
    field.focus({ preventScroll: true });
    field.setSelectionRange(...place);
    const height = parseFloat(getComputedStyle(field).lineHeight);
    field.scrollTop = Math.max(0, (line - 4) * height);
    field.scrollLeft = 0;
    follow();
    field.scrollIntoView({ block: "nearest" });
  }
}
