// The strips over the canvas that say why nothing can be edited now, and what can be done about it.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";

// `lost`: there is no connection; `look`: the graph is only to be looked at here. Returns the way to say it again.
export function createBanners({ lost, look }, app) {
  const { store, t } = app;

  function sayLook() {
    const { notEditable } = store.get();
    look.hidden = !notEditable;
    if (!notEditable) return replace(look);
    const text = t(notEditable.isElsewhere ? "canvas.elsewhere_long" : "canvas.not_live", notEditable);
    return replace(look, icon("eye"), h("span", text), h("button", { type: "button", onclick: app.live.lookAgain }, t("canvas.try_edit")));
  }

  function speak() {
    replace(lost, icon("warn"), h("span", t("connection.closed_long")), h("button", { type: "button", onclick: app.socket.reconnect }, t("connection.reconnect")));
    sayLook();
  }

  store.on("notEditable", sayLook);
  return { speak };
}
