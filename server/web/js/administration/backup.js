// A copy of the database, made while the service works, and downloaded.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { numberText, timeText } from "../names.js";

const LOOK_MS = 500;
const PLACE = "/api/administration/backup";

export function backupSection(app) {
  const { t, store, api } = app;
  const said = h("div", { role: "status" });
  const button = h("button", { type: "button", onclick: () => follow(api.post(PLACE)) }, t("admin.backup_now"));
  follow(api.get(PLACE));
  return [h("p.note", t("admin.backup_hint")), h("div", button), said];

  async function follow(asked) {
    try {
      let state = await asked;
      while (state.state === "running") {
        replace(said, h("p", t("admin.backup_running"), " ", state.progress), h("progress"));
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
        state = await api.get(PLACE);
      }
      show(state);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      replace(said, h("p.warn-text", error.message));
    }
  }

  function show({ state, database, time, size, progress }) {
    const { lang } = store.get();
    button.disabled = state === "unsupported";
    if (state === "done") replace(said, h("p", t("admin.backup_done", { when: timeText(time, lang), size: numberText(Math.ceil(size / 1000), lang) }), " ", h("button.link", { type: "button", onclick: download }, t("admin.backup_download"))));
    else if (state === "failed") replace(said, h("p.warn-text", t("admin.backup_failed"), " ", progress));
    else replace(said, state === "unsupported" ? h("p.note", t(`admin.backup_by.${database}`)) : "");
  }

  async function download() {
    const headers = app.session.token ? { Authorization: `Bearer ${app.session.token}` } : {};
    const answer = await fetch(`${PLACE}/file`, { headers, credentials: "omit" }).catch(() => null);
    if (!answer?.ok) return app.toast("error", t(answer ? "error.status" : "error.network", { status: answer?.status }));
    const url = URL.createObjectURL(await answer.blob());
    h("a", { href: url, download: /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1] ?? "nodius.db" }).click();
    return setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }
}
