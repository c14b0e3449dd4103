// The dialog that makes an automation, or changes one: its message, when it runs, what it may do and use.
//
// What is valid is the server's to say: its faults are shown at the fields that they name.

import { ApiError } from "../api.js";
import { createBlocks } from "../chat/blocks.js";
import { h, replace } from "../dom.js";
import { createField, fieldOf, mark } from "../faults.js";
import { icon } from "../icons.js";
import { createScheduleField } from "./schedule-field.js";
import { addAutomation, editAutomation } from "./service.js";

const MODES = ["propose", "report"];
const BUDGET = [["modelCalls", 1], ["tokens", 1], ["costUsd", "any"], ["activeS", 1], ["dayRuns", 1], ["dayCostUsd", "any"]];
const USUAL = { modelCalls: 20, tokens: 200_000, activeS: 600, dayRuns: 48 };

// Opens the dialog. `given` holds fields of the automation: with an `id` it is changed, else a new one of `graphKey` is
// made; `blocks` are those of its message. Resolves to null, `{made}`, or `{tried}`: what was written, to try it in a chat.
export async function openForm(app, given) {
  const { t } = app;
  const isNew = !given.id;
  const isHere = given.graphKey === app.store.get().graphKey;
  const problem = h("p.field-error", { role: "alert", hidden: true });
  const name = createField("name", t("auto.name"), h("input#auto-name", { value: given.name ?? "", maxlength: 80, required: true, autocomplete: "off" }));
  const words = h("textarea#auto-message", { rows: 5, maxlength: 100_000, value: given.message ?? "" });
  const blocks = createBlocks(app, { field: words, graphKey: () => given.graphKey, isRepeated: true });
  const message = createField("message", t("auto.message"), words, t("auto.message_hint"));
  const pointing = h("button.icon-button.composer-block", { type: "button", title: t("block.title"), "aria-label": t("block.title"), disabled: !isHere, onclick: () => blocks.choose() }, "@");
  message.error.before(h("div.auto-blocks", pointing, blocks.element));
  blocks.put(given.blocks ?? []);
  const when = createScheduleField(app, given);
  const mode = modeField(app, given);
  const budget = budgetFields(app, given.budget ?? {});
  const model = modelFields(app, given);
  const fields = [name, message, { ...message, where: "blocks" }, ...when.fields, ...model.fields, ...budget.fields];
  const save = h("button.primary", { type: "submit", form: "auto-form" }, t(isNew ? "auto.add" : "auto.save"));
  const before = JSON.stringify(said());
  let done = null;
  const form = h("form#auto-form.auto-form", { novalidate: true, onsubmit: (event) => (event.preventDefault(), submit()) },
    problem, name.element, message.element, when.element, mode.element, model.element, budget.element);
  const tryIt = h("button", { type: "button", title: t("auto.try_hint"), disabled: !isHere, onclick: () => words.value.trim() ? end({ tried: { ...given, ...read(), ...said(), read: blocks.readWith(words.value.trim()).read } }) : words.focus() }, icon("chat"), t("auto.try"));
  const dialog = app.openDialog({
    title: isNew ? t("auto.new_title") : t("auto.edit_title", { name: given.name }), content: form, wide: true,
    actions: [tryIt, h("span.grow"), h("button", { type: "button", onclick: () => dialog.close() }, t("app.cancel")), save],
  });
  name.control.focus();
  await dialog.closed;
  blocks.destroy();
  return done;

  function end(result) {
    done = result;
    dialog.close();
  }

  async function submit() {
    show([]);
    save.disabled = true;
    try {
      end({ made: isNew
        ? await addAutomation(app.api, { graphKey: given.graphKey, ...read(), ...said() })
        : await editAutomation(app.api, given.id, { version: given.version, ...read(), ...(isSaid() ? said() : {}) }) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      show(Array.isArray(error.details) ? error.details : [], error.message);
    } finally {
      save.disabled = false;
    }
  }

  function read() {
    return { name: name.control.value, ...when.read(), ...mode.read(), ...model.read(), budget: budget.read() };
  }

  function said() {
    const text = words.value.trim();
    return { message: text, blocks: blocks.readWith(text).blocks };
  }

  function isSaid() {
    return JSON.stringify(said()) !== before || given.isTried;
  }

  function show(faults, text = "") {
    fields.forEach((one) => mark(one));
    const rest = faults.filter((fault) => {
      const found = fieldOf(fields, fault.where);
      if (found) mark(found, fault.what);
      return !found;
    });
    const unplaced = faults.length && !rest.length ? "" : text;
    replace(problem, unplaced);
    problem.hidden = !unplaced;
    const first = form.querySelector("[aria-invalid=true]");
    first?.closest("details")?.setAttribute("open", "");
    first?.focus();
  }
}

// What it may do, and who is asked before anything changes.
function modeField({ t }, { mode = "propose", requireValidation = true, onlyIfChanged = true }) {
  const asked = h("p.auto-asked", { role: "status" });
  const radios = MODES.map((value) => h("input", { type: "radio", name: "auto-mode", id: `auto-mode-${value}`, value, checked: value === mode, onchange: () => draw() }));
  const check = (id, checked) => h("input", { type: "checkbox", id, checked, onchange: () => draw() });
  const [always, changed] = [check("auto-always", requireValidation), check("auto-changed", onlyIfChanged)];
  const line = (control, key) => h("label.auto-check", { for: control.id }, control, h("span", t(key)));
  const alwaysLine = line(always, "auto.always_ask");
  const chosen = () => radios.find((one) => one.checked)?.value ?? mode;
  const draw = () => {
    alwaysLine.hidden = chosen() === "report";
    asked.textContent = t(chosen() === "report" ? "auto.asked.nobody" : always.checked ? "auto.asked.always" : "auto.asked.rules");
  };
  draw();
  return {
    element: h("fieldset", h("legend", t("auto.mode")), ...radios.map((one) => line(one, `auto.mode.${one.value}`)), alwaysLine, asked, line(changed, "auto.only_changed")),
    read: () => ({ mode: chosen(), requireValidation: always.checked, onlyIfChanged: changed.checked }),
  };
}

// Another model than that of the service.
function modelFields({ t }, given) {
  const fields = ["provider", "model"].map((name) => createField(name, t(`auto.${name}`), h(`input#auto-${name}`, { value: given[name] ?? "", maxlength: 100, autocomplete: "off", spellcheck: false, placeholder: t("auto.as_service") })));
  return {
    fields,
    element: h("details.auto-own-model", { open: Boolean(given.provider || given.model) }, h("summary", t("auto.own_model")), h("div.auto-grid", fields.map((one) => one.element))),
    read: () => Object.fromEntries(fields.map(({ where, control }) => [where, control.value.trim() || null])),
  };
}

function budgetFields({ t }, given) {
  const fields = BUDGET.map(([name, step]) => createField(`budget.${name}`, t(`auto.budget.${name}`), h(`input#auto-${name}`, { type: "number", min: 0, step, value: given[name] ?? USUAL[name] ?? "", placeholder: t("auto.no_limit") })));
  const number = ({ control }) => (control.value.trim() === "" ? null : Number(control.value));
  return {
    fields,
    element: h("details.auto-budget", h("summary", t("auto.budget")), h("div.auto-grid", fields.map((one) => one.element))),
    read: () => Object.fromEntries(fields.map((one, i) => [BUDGET[i][0], number(one)])),
  };
}
