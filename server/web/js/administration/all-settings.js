// Every setting of the service as it is read, and the form that tries a model. For admins of any workspace.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { createTrial } from "./trial-form.js";

export function allSettings(app) {
  const { t, api } = app;
  const body = h("div.settings", h("p", { role: "status" }, t("settings.loading")));
  load();
  return body;

  async function load() {
    try {
      const found = await api.get("/api/settings");
      replace(body, createTrial(app, found.providers, found.provider), h("p.note", t("settings.where")), found.groups.map((group) => table(app, group)));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(body, h("p.warn-text", { role: "alert" }, error.message));
    }
  }
}

function table({ t }, { name, settings }) {
  const row = ({ variable, value, state }) => h("tr", h("th", { scope: "row" }, h("code", variable)),
    h("td", state === "unset" ? h("span.muted", t("settings.unset")) : value ?? t("settings.secret")),
    h("td.muted", state === "default" ? t("settings.default") : ""));
  return h("details", h("summary", t(`settings.group.${name}`)), h("table", h("tbody", settings.map(row))));
}
