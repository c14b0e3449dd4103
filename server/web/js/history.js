// The dialog of live edits: who did what, newest first; each can be taken back while nothing later is in the way.

import { h, replace } from "./dom.js";
import { icon } from "./icons.js";
import { showNotice } from "./dialogs.js";
import { ago, fieldName, nameOf, personName } from "./names.js";
import { mayEdit } from "./roles.js";

export async function showHistory(app) {
  const { t, api, path, store, openDialog, toast } = app;
  const { graphKey } = store.get();
  const list = h("div.history", { "aria-busy": "true" });
  openDialog({ title: t("canvas.history"), content: list, wide: true });
  showNotice(list, { busy: true, text: t("graph.loading") });

  async function load() {
    try {
      const { edits } = await api.get(path`/api/graphs/${graphKey}/history`, { limit: 100 });
      list.removeAttribute("aria-busy");
      if (edits.length) replace(list, h("ol.edits", edits.map(row)));
      else showNotice(list, { name: "history", text: t("canvas.history_empty") });
    } catch (error) {
      showNotice(list, { name: "error", text: error.message, actions: [h("button", { type: "button", onclick: load }, t("app.retry"))] });
    }
  }

  function row(edit) {
    const mayTake = !edit.takenBackBy && mayEdit(store.get().me);
    return h("li", { class: edit.takenBackBy ? "gone" : undefined },
      h("div.edit-what", sentences(edit.steps, app).join(" · "), edit.takesBack ? h("span.tag", t("canvas.takes_back")) : null),
      h("div.muted", t("canvas.history_of", { who: personName(app, edit.userId), when: ago(edit.time, store.get().lang, t) })),
      edit.takenBackBy ? h("span.tag", icon("undo"), t("canvas.taken_back"))
        : mayTake ? h("button", { type: "button", onclick: (event) => takeBack(edit, event.currentTarget) }, icon("undo"), t("canvas.take_back")) : null);
  }

  async function takeBack(edit, button) {
    button.disabled = true;
    try {
      await api.post(path`/api/graphs/${graphKey}/history/${edit.id}/take-back`);
      toast("ok", t("canvas.taken_back"));
    } catch (error) {
      toast("error", t("canvas.edit_refused", { reason: error.message }));
    }
    await load();
  }

  await load();
}

// Says an edit's steps once each: moving a node sets two fields.
export function sentences(steps, { t, store }) {
  const said = new Set();
  for (const { type, keys = [], field = "", name = "" } of steps) {
    const key = keys.length ? nameOf({ store }, keys[0]) : "";
    const isMove = type === "nodeUpdate" && ["posX", "posY"].includes(field);
    said.add(t(isMove ? "step.nodeMove" : `step.${type}`, { n: keys.length, key, field: fieldName(t, field), name }));
  }
  return [...said];
}
