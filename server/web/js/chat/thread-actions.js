// What a person does with a conversation as a whole: another title, a file, a link, or forget it.

import { ApiError } from "../api.js";
import { h } from "../dom.js";
import { createMoreMenu } from "../more-menu.js";
import { deleteThread, readExport, renameThread } from "./service.js";

// Returns the menu of a conversation; `onChange()` is called when the list is another.
export function createThreadMenu(app, thread, { onChange }) {
  const { t, store } = app;
  const title = thread.title || t("threads.untitled");
  const item = (name, run) => h("button", { type: "button", onclick: () => attempt(run) }, t(`threads.${name}`));
  return createMoreMenu(t("threads.more", { title }), [item("rename", rename), item("link", copyLink), item("export", exportAll), item("delete", remove)]);

  async function attempt(run) {
    try {
      await run();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      app.toast("error", error.message);
    }
  }

  async function rename() {
    const given = await app.prompt({ title: t("threads.rename"), label: t("threads.title"), value: thread.title });
    if (given === null || given === thread.title) return;
    await renameThread(app.api, thread.threadId, given.slice(0, 80));
    onChange();
  }

  // Leads this person back; for others a conversation does not exist.
  async function copyLink() {
    const hash = new URLSearchParams({ graph: thread.graphKey, panel: "chat", thread: thread.threadId });
    try {
      await navigator.clipboard.writeText(`${location.origin}${location.pathname}#${hash}`);
      app.toast("ok", t("threads.linked"));
    } catch {
      app.toast("error", t("threads.not_linked"));
    }
  }

  async function exportAll() {
    const url = URL.createObjectURL(await readExport(app, thread.threadId));
    h("a", { href: url, download: `${title.replace(/[^\p{L}\p{N}.-]+/gu, "_").slice(0, 60)}.md` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  async function remove() {
    if (!(await app.confirm({ title: t("threads.delete_title"), text: t("threads.delete_text", { title }), ok: t("threads.delete_yes"), danger: true }))) return;
    await deleteThread(app.api, thread.threadId);
    if (thread.threadId === store.get().threadId) app.chat?.startNew();
    app.toast("ok", t("threads.deleted"));
    onChange();
  }
}
