// What the service finds wrong with its installation, as `nodius doctor` says it.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";

export function findingsSection(app) {
  const { t, api } = app;
  const list = h("div", { role: "status" });
  return [h("p.note", t("admin.findings_hint")), h("div", h("button", { type: "button", onclick: look }, t("admin.findings_look"))), list];

  async function look() {
    replace(list, h("p", t("admin.findings_looking")));
    try {
      const { findings } = await api.get("/api/administration/findings", null, { isLong: true });
      replace(list, h("ul.findings", findings.map(({ name, status, detail, fix }) => h("li", { class: `is-${status}` },
        h("span.tag", t(`admin.finding.${status}`)), h("span.finding-text", h("strong", name), ": ", detail, fix ? h("span.finding-fix", "→ ", fix) : null)))));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(list, h("p.warn-text", error.message));
    }
  }
}
