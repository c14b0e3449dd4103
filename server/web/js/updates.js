// Notices that the server was updated while the page was open: the files that the page would read later are gone then.
// It is said until the person reloads the page; nothing is reloaded by itself.

// Fields that keep what is typed by themselves: those that store it when they are left, and those that bring it back.
const SAFE = "[type=search], [type=file], [type=checkbox], [type=radio], [data-safe]";

// `confirm` asks before text that is not stored anywhere is given up.
export function createUpdates({ t, toast, confirm }) {
  const { built } = document.documentElement.dataset;
  const typed = new WeakSet(); // fields in which a person has written
  addEventListener("input", ({ target }) => typed.add(target), { capture: true });

  // Looks whether the files of this page are still there. Resolves to whether the server was updated.
  async function look() {
    if (!built) return false; // its modules have addresses that stay
    const answer = await fetch(`${built}/early.js`, { method: "HEAD", cache: "no-store" }).catch(() => null);
    if (answer?.status !== 404) return false;
    toast("warn", t("app.updated"), { action: { label: t("app.reload"), run: reload }, isKept: true });
    return true;
  }

  async function reload() {
    const isSure = !isWriting() || (await confirm({ title: t("app.unsaved"), text: t("app.unsaved_text"), ok: t("app.reload"), danger: true }));
    if (isSure) location.reload();
    else look();
  }

  function isWriting() {
    const fields = [...document.querySelectorAll("textarea, input")];
    return fields.some((field) => typed.has(field) && !field.matches(SAFE) && field.value.trim() && field.checkVisibility());
  }

  return { look };
}
