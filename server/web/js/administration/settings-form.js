// A form of settings. What the environment sets is shown and cannot be changed; a key is never shown again.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";

const EMBEDDERS = ["auto", "local", "minilm", "multilingual", "openai", "none"];
const PROVIDERS = ["auto", "offline", "deepseek", "openai", "anthropic", "gemini", "mistral", "groq", "openrouter", "qwen", "ollama", "llama.cpp", "vllm", "lmstudio", "compatible"];
const CHOICES = { provider: PROVIDERS, embeddings: EMBEDDERS };

// `onSaved` gets the settings as they are then.
export function settingsForm(app, view, names, onSaved) {
  const { t } = app;
  const rows = view.settings.filter(({ name }) => names.includes(name));
  const fields = new Map(rows.map((row) => [row.name, field(row)]));
  const problem = h("p.field-error", { role: "alert", hidden: true });
  const isOpen = rows.some(({ source }) => source !== "environment");
  const save = h("button.primary", { type: "submit" }, t("admin.save"));
  return h("form.admin-form", { onsubmit: submit }, rows.map(line), problem,
    isOpen ? h("div.dialog-actions", save) : h("p.note", t("admin.all_fixed")));

  function field({ name, value, source, isKey, isSet }) {
    const props = { id: `setting-${name}`, disabled: source === "environment", autocomplete: isKey ? "new-password" : "off", "aria-describedby": `setting-${name}-note` };
    const choices = CHOICES[name];
    if (choices && source !== "environment") return h("select", props, [...new Set([...choices, value])].map((one) => h("option", { value: one, selected: one === value }, one)));
    return h("input", { type: isKey ? "password" : "text", spellcheck: "false", maxlength: 2000, value: value ?? "", placeholder: isKey && isSet ? t("admin.key_kept") : "", ...props });
  }

  function line(row) {
    const { name, variable, source, isKey, isSet, waits, atOnce } = row;
    const said = [
      source === "environment" ? t("admin.from_environment", { variable }) : t(`admin.from_${source}`),
      isKey && source !== "environment" && (view.mayKeepKeys ? t(isSet ? "admin.key_replace" : "admin.key_sealed") : t("admin.no_secret")),
      waits ? t("admin.waits") : source !== "environment" && !atOnce && t("admin.at_start"),
    ].filter(Boolean);
    return h("div.admin-line", h("label", { for: `setting-${name}` }, t(`admin.setting.${name}`)), fields.get(name),
      h("p.note", { id: `setting-${name}-note`, class: waits ? "waits" : undefined }, said.join(" ")),
      source === "page" ? h("button.link", { type: "button", "aria-label": `${t("admin.take_back")}: ${t(`admin.setting.${name}`)}`, onclick: () => put({ [name]: null }) }, t("admin.take_back")) : null);
  }

  function submit(event) {
    event.preventDefault();
    const changes = {};
    for (const { name, value, source, isKey } of rows) {
      const now = fields.get(name).value.trim();
      if (source === "environment" || now === (value ?? "") || (isKey && !now)) continue;
      changes[name] = now || null;
    }
    if (Object.keys(changes).length) return put(changes);
    return app.toast("info", t("admin.unchanged"));
  }

  async function put(changes) {
    problem.hidden = true;
    try {
      const next = await app.api.put("/api/administration/settings", { changes });
      app.toast("ok", t("admin.saved"));
      onSaved(next);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(problem, [error.message, error.details?.reason].filter(Boolean).join(": "));
      problem.hidden = false;
    }
  }
}
