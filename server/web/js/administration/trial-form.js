// A form that tries a model's key before it is set. Nothing is stored.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { numberText } from "../names.js";

// Asks a model one short question. The key stays in its field, and goes nowhere but to this server.
export function createTrial(app, providers, current) {
  const { t, api, store } = app;
  let isAsking = false;
  const result = h("div.trial-result", { role: "status" });
  const provider = h("select#trial-provider", { onchange: hint }, providers.map(({ name }) => h("option", { value: name, selected: name === current }, name)));
  const field = (id, type, more = {}) => h(`input#trial-${id}`, { type, autocomplete: "off", spellcheck: "false", ...more });
  const model = field("model", "text", { maxlength: 200 });
  const address = field("address", "url", { maxlength: 500, placeholder: "https://…" });
  const key = field("key", "password", { maxlength: 1000, autocomplete: "new-password" });
  const label = (input, name) => h("label", { for: input.id }, t(`settings.${name}`), input);
  const form = h("form.trial", { onsubmit: submit }, h("h3", t("settings.trial")),
    label(provider, "provider"), label(model, "model"), label(address, "address"), label(key, "key"), h("div.dialog-actions", h("button.primary", { type: "submit" }, t("settings.try"))), result);
  hint();
  return form;

  function hint() {
    const chosen = providers.find(({ name }) => name === provider.value);
    model.placeholder = chosen.model ?? "";
    model.required = !chosen.model;
    address.required = !chosen.address;
    key.placeholder = chosen.hasKey ? t("settings.has_key") : "";
  }

  async function submit(event) {
    event.preventDefault();
    if (isAsking) return;
    isAsking = true; // a button that is disabled would lose the focus
    replace(result, h("p", t("settings.trying")));
    const given = Object.entries({ model: model.value.trim(), baseUrl: address.value.trim(), key: key.value.trim() }).filter(([, value]) => value);
    try {
      show(await api.post("/api/settings/test", { provider: provider.value, ...Object.fromEntries(given) }, { isLong: true }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(result, h("p.warn-text", error.message));
    } finally {
      isAsking = false;
    }
  }

  function show({ ok, detail, line, latencyMs }) {
    const took = latencyMs === null ? "" : ` (${t("settings.took", { ms: numberText(latencyMs, store.get().lang) })})`;
    replace(result,
      h("p", { class: ok ? "ok-text" : "warn-text" }, t(ok ? "settings.works" : "settings.fails"), took),
      h("p.trial-detail", detail),
      ok ? h("p", t("settings.set"), h("code.trial-line", { tabIndex: 0 }, line)) : null);
  }
}
