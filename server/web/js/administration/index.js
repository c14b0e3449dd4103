// Administration, for admins: model, embeddings and limits, people, policies, backup, findings, usage, and all settings.

import { ApiError } from "../api.js";
import { h, keepFocus, replace } from "../dom.js";
import { backupSection } from "./backup.js";
import { findingsSection } from "./findings.js";
import { peopleSection } from "./people.js";
import { settingsForm } from "./settings-form.js";
import { allSettings } from "./all-settings.js";

const MODEL = ["provider", "model", "llm_base_url", "llm_api_key"];
const EMBEDDINGS = ["embeddings", "embeddings_model", "embeddings_base_url", "embeddings_api_key"];

export function mountSettings(app, element) {
  const { t, store } = app;
  element.classList.add("administration");
  const parts = { view: null, error: null };
  store.on("lang", () => draw());
  store.on("panel", (panel) => panel === "settings" && load());
  load();

  async function load() {
    try {
      parts.view = await app.api.get("/api/administration/settings");
      parts.error = null;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      parts.error = error;
    }
    draw();
  }

  function take(view) {
    parts.view = view;
    draw();
    refreshMe();
  }

  // The chat says which model answers.
  async function refreshMe() {
    const me = await app.api.get("/api/me").catch(() => null);
    if (me) store.set({ me, offline: me.offline });
  }

  function draw() {
    const { view, error } = parts;
    keepFocus(element, () => replace(element, h("h2", t("panel.settings")), view ? sections(view) : [
      h("p", { role: error ? "alert" : "status", class: error ? "warn-text" : undefined }, error ? error.message : t("settings.loading")),
      error ? allSettings(app) : null]));
  }

  function sections(view) {
    const others = view.settings.map(({ name }) => name).filter((name) => ![...MODEL, ...EMBEDDINGS].includes(name));
    const form = (names) => settingsForm(app, view, names, take);
    return [
      section("model", h("p", t("settings.now", { provider: view.provider, model: view.model, embedder: view.embedder ?? t("settings.nobody") })), form(MODEL)),
      section("embeddings", h("p.note", t("admin.embeddings_hint")), form(EMBEDDINGS)),
      section("limits", h("p.note", t("admin.limits_hint")), form(others)),
      section("people", peopleSection(app, view)),
      section("policies", h("p", t("admin.policies_what")), h("p.note", t("admin.policies_levels")), h("div", h("button", { type: "button", onclick: async () => (await import("../review/policy.js")).openPolicy(app) }, t("policy.title")))),
      section("backup", backupSection(app)),
      section("findings", findingsSection(app)),
      section("usage", h("p.note", t("admin.usage_hint")), h("div", h("button", { type: "button", onclick: async () => (await import("../usage.js")).showUsage(app) }, t("usage.title")))),
      section("all", allSettings(app)),
    ];
  }

  function section(name, ...content) {
    return h("section.admin-section", { "aria-labelledby": `admin-${name}` }, h("h3", { id: `admin-${name}` }, t(`admin.${name}`)), content);
  }
}
