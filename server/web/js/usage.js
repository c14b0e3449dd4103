// Who used how much: by day, person, model or graph, as a chart and a table, with the month's limits.

import { ApiError } from "./api.js";
import { h, named, replace, svg } from "./dom.js";
import { costText, numberText, personName } from "./names.js";
import { mayAdminister } from "./roles.js";

const BY = ["day", "person", "model", "graph"];
const MEASURES = ["totalTokens", "cost", "questions", "decisions", "calls"];
const NAMES = { totalTokens: "usage.tokens" };
const PERIODS = [7, 30, 90];
const DAY_MS = 86_400_000;
const CHART = { w: 640, h: 120, gap: 0.2 };

export async function showUsage(app) {
  const { t, api, store } = app;
  const { lang, graphs, me } = store.get();
  const body = h("div", { role: "status" });
  const chosen = { by: "day", measure: "totalTokens", days: 30 };
  let answer = null;
  const choosers = h("div.usage-choices",
    chooser("by", BY.map((by) => [by, t(`usage.${by}`)]), load),
    chooser("measure", MEASURES.map((name) => [name, measureName(name)]), draw),
    chooser("days", PERIODS.map((n) => [n, t("usage.days", { n })]), load, "period"));
  app.openDialog({ title: t("usage.title"), content: h("div.usage", choosers, body), wide: true });
  await load();

  function chooser(name, options, onChange, label = name) {
    const select = h("select", options.map(([value, text]) => h("option", { value, selected: value === chosen[name] }, text)));
    select.addEventListener("change", () => {
      chosen[name] = name === "days" ? Number(select.value) : select.value;
      onChange();
    });
    return named(t(`usage.${label}`), select);
  }

  function measureName(name) {
    return t(NAMES[name] ?? `usage.${name}`);
  }

  async function load() {
    const asked = { ...chosen };
    try {
      const found = await api.get("/api/usage", { by: asked.by, days: asked.days });
      if (asked.by !== chosen.by || asked.days !== chosen.days) return; // chosen otherwise meanwhile
      answer = found;
      draw();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(body, h("p.warn-text", { role: "alert" }, error.message));
    }
  }

  function draw() {
    if (!answer) return;
    const { groups, limits } = answer;
    replace(body, groups.length ? [chosen.by === "day" ? chart(groups) : "", table(groups)] : h("p.note", t("usage.empty_in", { n: chosen.days })),
      notes().map((text) => h("p.note", text)), limits.map((limit) => budget(limit)));
  }

  function notes() {
    const { days, keptDays, cut } = answer;
    const kept = keptDays ? t("usage.kept", { n: keptDays }) : t("usage.not_kept");
    return [mayAdminister(me) ? "" : t("usage.own"), days > keptDays ? kept : "", cut ? t("usage.cut") : ""].filter(Boolean);
  }

  function nameOf({ name, others }) {
    if (others) return t("usage.others", { n: others });
    if (chosen.by === "person") return personName(app, name);
    if (chosen.by === "graph") return graphs?.find((one) => one.graphKey === name)?.name ?? name;
    return chosen.by === "day" ? dayText(Date.parse(name)) : name;
  }

  function dayText(time) {
    return new Intl.DateTimeFormat(lang, { day: "numeric", month: "short", timeZone: "UTC" }).format(time);
  }

  function valueText(group, measure) {
    if (measure !== "cost") return numberText(group[measure], lang);
    return group.cost == null ? t("usage.cost_unknown") : costText(group.cost, lang);
  }

  // One column a day, also of days without use. The table below says the same in words.
  function chart(groups) {
    const { measure, days } = chosen;
    const values = new Map(groups.map((group) => [group.name, group[measure] ?? 0]));
    const last = Math.floor(Date.now() / DAY_MS);
    const shown = Array.from({ length: days }, (_, i) => new Date((last - days + 1 + i) * DAY_MS).toISOString().slice(0, 10));
    const most = Math.max(...shown.map((day) => values.get(day) ?? 0));
    const step = CHART.w / days;
    const high = (day) => (most ? (CHART.h * (values.get(day) ?? 0)) / most : 0);
    const columns = shown.map((day, i) => svg("rect", { x: (i + CHART.gap / 2) * step, y: CHART.h - high(day), width: step * (1 - CHART.gap), height: high(day), rx: Math.min(2, step / 4) }));
    const mostText = measure === "cost" ? costText(most, lang) : numberText(most, lang);
    return h("figure.usage-chart", h("figcaption", t("usage.chart", { what: measureName(measure), most: mostText })),
      svg("svg", { viewBox: `0 0 ${CHART.w} ${CHART.h}`, preserveAspectRatio: "none", "aria-hidden": "true" }, columns),
      h("div.usage-ends", { "aria-hidden": "true" }, h("span", dayText(Date.parse(shown[0]))), h("span", dayText(Date.parse(shown.at(-1))))));
  }

  function table(groups) {
    const { by, measure } = chosen;
    const most = Math.max(...groups.map((group) => group[measure] ?? 0));
    const bar = (group) => h("td.usage-share", { "aria-hidden": "true" }, h("span", { style: { width: `${most ? (100 * (group[measure] ?? 0)) / most : 0}%` } }));
    const columns = MEASURES.filter((name) => !(by === "model" && name === "decisions"));
    const head = (name) => h("th.number", { scope: "col", class: name === measure ? "is-shown" : undefined }, measureName(name));
    const row = (group) => h("tr", h("th", { scope: "row" }, nameOf(group)), by === "day" ? "" : bar(group), columns.map((name) => h("td.number", { class: name === measure ? "is-shown" : undefined }, valueText(group, name))));
    const rows = by === "day" ? groups.toReversed() : groups;
    return h("div.usage-table", { tabindex: "0", role: "group", "aria-label": t("usage.title") }, h("table",
      h("thead", h("tr", h("th", { scope: "col" }, t(`usage.${by}`)), by === "day" ? "" : h("td"), columns.map(head))), h("tbody", rows.map(row))));
  }

  function budget({ whose, usedTokens, maxTokens, usedCost, maxCost }) {
    const used = maxCost ? costText(usedCost, lang) : numberText(usedTokens, lang);
    const most = maxCost ? costText(maxCost, lang) : numberText(maxTokens ?? 0, lang);
    const [value, max] = maxCost ? [usedCost, maxCost] : [usedTokens, maxTokens ?? 1];
    return h("p", h("label", t(`usage.limit_${whose}`, { used, most }), " ", h("progress", { value: String(value), max: String(max) })));
  }
}
