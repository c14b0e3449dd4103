// A select for each filter that has something to choose from.

import { createParts, h } from "../dom.js";

// `filters`: see filters.js. Returns `element` and `draw(items, chosen)`; `onChoose(name, value)` is called with "" for all,
// `valueName(name, value, items)` says what a value is called.
export function createFilterBar(app, filters, { onChoose, valueName }) {
  const { t, store } = app;
  const element = h("div.filter-bar", { role: "group", "aria-label": t("filter.title") });
  const drawFields = createParts(element);
  return { element, draw };

  function draw(items, chosen) {
    const { lang, names, automations } = store.get();
    const fields = filters.names.map((name) => ({ name, values: filters.valuesOf(items, name, chosen) })).filter(({ name, values }) => chosen[name] || values.length > 1);
    drawFields(fields.map(({ name, values }) => ({ key: name, facts: [lang, names, automations, chosen[name], values.join()], make: () => field(name, values, chosen[name], items) })));
  }

  function field(name, values, value, items) {
    const options = values.map(([each, n]) => h("option", { value: each, selected: each === value }, `${valueName(name, each, items)} (${n})`));
    if (value && !values.some(([each]) => each === value)) options.push(h("option", { value, selected: true }, valueName(name, value, items)));
    const select = h("select", { onchange: () => onChoose(name, select.value) }, h("option", { value: "" }, t("filter.all")), options);
    return h("label", h("span", t(`filter.${name}`)), select);
  }
}
