// Opens the form of an automation, and shows what came of it.

import { writtenOf } from "../chat/segments.js";
import { openForm } from "./form.js";

// Makes an automation of the open graph, from a template or from what was said in a conversation.
export function makeAutomation(app, { id, name, about, messages, ...fields }) {
  const { text, blocks } = writtenOf(messages ?? []);
  return openAutomation(app, { name, ...(messages ? { message: text, blocks } : fields), graphKey: app.store.get().graphKey });
}

// What is tried is asked in a conversation from which the form opens again.
export async function openAutomation(app, given) {
  const { store, t } = app;
  const { made, tried } = (await openForm(app, given)) ?? {};
  if (made) {
    app.toast("ok", t(given.id ? "auto.changed" : "auto.added", { name: made.name }));
    app.chat?.tryOut(null);
    store.set({ panel: "automations", runShown: null });
    app.automations.load();
  } else if (tried) {
    store.set({ panel: "chat" });
    app.chat.tryOut({ ...tried, isTried: true });
  }
}
