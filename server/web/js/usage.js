// Who used how much, for admins: by person, model, day and graph, with the month's limits.

import { ApiError } from "./api.js";
import { h, replace } from "./dom.js";
import { costText, numberText, personName } from "./names.js";

const BY = ["person", "model", "day", "graph"];

export async function showUsage(app) {
  const { t, api, store } = app;
  const { lang, graphs } = store.get();
  const body = h("div", { role: "status" });
  const chooser = h("select", { "aria-label": t("usage.by"), onchange: () => load() }, BY.map((by) => h("option", { value: by }, t(`usage.${by}`))));
  app.openDialog({ title: t("usage.title"), content: h("div.usage", chooser, body), wide: true });
  await load();

  async function load() {
    try {
      const by = chooser.value;
      const { groups, limits } = await api.get("/api/usage", { by });
      if (by !== chooser.value) return; // chosen otherwise meanwhile
      const called = { person: (name) => personName(app, name), graph: (name) => graphs?.find((one) => one.graphKey === name)?.name ?? name };
      const row = (one) => h("tr", h("th", { scope: "row" }, (called[by] ?? String)(one.name)), [one.calls, one.totalTokens, one.cachedTokens].map((n) => h("td.number", numberText(n, lang))), h("td.number", one.cost == null ? t("usage.cost_unknown") : costText(one.cost, lang)));
      const heads = [`usage.${by}`, "usage.calls", "usage.tokens", "usage.cached", "usage.cost"];
      replace(body, groups.length ? h("table", h("thead", h("tr", heads.map((head, i) => h("th", { scope: "col", class: i ? "number" : undefined }, t(head))))), h("tbody", groups.map(row))) : h("p.note", t("usage.empty")),
        limits.map((limit) => budget(limit)));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(body, h("p.warn-text", { role: "alert" }, error.message));
    }
  }

  function budget({ whose, usedTokens, maxTokens, usedCost, maxCost }) {
    const used = maxCost ? costText(usedCost, lang) : numberText(usedTokens, lang);
    const most = maxCost ? costText(maxCost, lang) : numberText(maxTokens ?? 0, lang);
    const [value, max] = maxCost ? [usedCost, maxCost] : [usedTokens, maxTokens ?? 1];
    return h("p", h("label", t(`usage.limit_${whose}`, { used, most }), " ", h("progress", { value: String(value), max: String(max) })));
  }
}
