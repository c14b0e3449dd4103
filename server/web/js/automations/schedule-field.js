// The part of the form that says when an automation runs: a preset, what belongs to it, and its next five times.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { mark } from "../faults.js";
import { choiceOf, KINDS, scheduleOf, WEEK } from "./schedule.js";
import { previewSchedule } from "./service.js";

const PAUSE_MS = 250; // after the last key, before the server is asked
const SUNDAY = Date.UTC(2023, 0, 1);
const LAST_SURE_DAY = 28; // later days are not in every month
const ownZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";

// Returns `{element, fields, read()}`; `automation` may hold a schedule and its zone.
export function createScheduleField(app, automation = {}) {
  const { t } = app;
  const choice = choiceOf(automation);
  const error = h("p.field-error", { id: "auto-when-error", hidden: true });
  const zoneError = h("p.field-error", { id: "auto-zone-error", hidden: true });
  const kind = h("select#auto-when", { "aria-describedby": error.id }, KINDS.map((one) => h("option", { value: one, selected: one === choice.kind }, t(`auto.when.${one}`))));
  const details = h("div.auto-when");
  const zone = h("input#auto-zone", { value: automation.timezone ?? ownZone(), list: "auto-zones", autocomplete: "off", spellcheck: "false", "aria-describedby": zoneError.id });
  const zones = h("datalist#auto-zones", (Intl.supportedValuesOf?.("timeZone") ?? []).map((value) => h("option", { value })));
  const next = h("div.auto-next", { role: "status" });
  const element = h("fieldset.auto-schedule", h("legend", t("auto.when")),
    h("div.edit-field", h("label.sr-only", { for: "auto-when" }, t("auto.when")), kind), details, error,
    h("div.edit-field", h("label", { for: "auto-zone" }, t("auto.zone")), zone, zones, zoneError), next);
  const fields = [
    { where: "cron", control: kind, error }, { where: "dates", control: kind, error }, { where: "timezone", control: zone, error: zoneError },
  ];
  let timer = 0;
  let asked = 0;
  kind.addEventListener("change", () => {
    choice.kind = kind.value;
    drawDetails();
    soon();
  });
  zone.addEventListener("input", soon);
  drawDetails();
  preview();
  return { element, fields, read: () => ({ ...scheduleOf(choice), timezone: zone.value.trim() || ownZone() }) };

  function drawDetails() {
    const time = () => labelled("auto.time", h("input#auto-time", { type: "time", value: choice.time, required: true, oninput: (event) => set({ time: event.target.value }) }));
    replace(details, {
      hand: () => [], daily: () => [time()], weekdays: () => [time()], weekly: () => [week(), time()], monthly: () => [monthDay(), time()],
      dates: () => [dates()], cron: () => [labelled("auto.cron", h("input#auto-cron.code-input", { value: choice.cron, placeholder: "0 2 * * 1-5", spellcheck: "false", autocomplete: "off", oninput: (event) => set({ cron: event.target.value }) }), t("auto.cron_hint"))],
    }[choice.kind]());
  }

  function labelled(key, control, hint = "") {
    return h("div.edit-field", h("label", { for: control.id }, t(key)), control, hint ? h("p.note", hint) : "");
  }

  function week() {
    const name = new Intl.DateTimeFormat(app.store.get().lang, { weekday: "short", timeZone: "UTC" });
    const press = (day) => set({ days: choice.days.includes(day) ? choice.days.filter((one) => one !== day) : [...choice.days, day] });
    return h("div.auto-week", { role: "group", "aria-label": t("auto.days") }, WEEK.map((day) => {
      const button = h("button", { type: "button", "aria-pressed": String(choice.days.includes(day)), onclick: () => (press(day), button.setAttribute("aria-pressed", String(choice.days.includes(day)))) }, name.format(SUNDAY + day * 86_400_000));
      return button;
    }));
  }

  function monthDay() {
    const days = [...Array(LAST_SURE_DAY).keys()].map((one) => String(one + 1));
    const all = days.includes(choice.day) || choice.day === "L" ? days : [...days, choice.day];
    const select = h("select#auto-day", { onchange: (event) => set({ day: event.target.value }) },
      [...all, "L"].map((value) => h("option", { value, selected: value === choice.day }, value === "L" ? t("auto.last_day") : value)));
    return labelled("auto.day", select);
  }

  function dates() {
    const input = h("input#auto-date", { type: "datetime-local" });
    const list = h("ul.auto-dates");
    const draw = () => replace(list, choice.dates.map((at) => h("li", h("time", dateText(at)),
      h("button.icon-button", { type: "button", "aria-label": t("auto.remove_date", { date: dateText(at) }), onclick: () => change(choice.dates.filter((one) => one !== at)) }, "×"))));
    const change = (found) => {
      set({ dates: [...new Set(found)].sort((one, other) => one - other) });
      draw();
    };
    const add = () => input.value && (change([...choice.dates, new Date(input.value).getTime()]), (input.value = ""));
    draw();
    return h("div.edit-field", h("label", { for: "auto-date" }, t("auto.date", { zone: ownZone() })), h("div.auto-line", input, h("button", { type: "button", onclick: add }, t("auto.add_date"))), list);
  }

  const dateText = (at) => new Intl.DateTimeFormat(app.store.get().lang, { dateStyle: "medium", timeStyle: "short" }).format(at);

  function set(patch) {
    Object.assign(choice, patch);
    soon();
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(preview, PAUSE_MS);
  }

  // Shows the schedule in words and its next times, or at the field what is wrong with it.
  async function preview() {
    const mine = ++asked;
    fields.forEach((field) => mark(field));
    const { timezone, ...schedule } = { ...scheduleOf(choice), timezone: zone.value.trim() || ownZone() };
    const given = Object.fromEntries(Object.entries(schedule).filter(([, value]) => value !== null));
    try {
      const found = await previewSchedule(app.api, { ...given, timezone });
      if (mine === asked) replace(next, h("p", h("strong", found.schedule)), found.next.length ? h("ol", { "aria-label": t("auto.next_times") }, found.next.map((text) => h("li", text))) : "");
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      if (mine !== asked) return;
      replace(next);
      const [fault] = Array.isArray(problem.details) ? problem.details : [];
      mark(fields.find((field) => field.where === fault?.where) ?? fields[0], fault?.what ?? problem.message);
    }
  }
}
