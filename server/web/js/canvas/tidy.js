// Tidies a sheet, or what is selected: where all would stand is shown first, and applied as one edit.

import { h, replace } from "../dom.js";

const AT_ONCE = 1300; // nodes of one edit: three instructions each

export function createTidy({ app, edits, canvas, element }) {
  const { store, api, t } = app;
  let positions = null; // what is shown: {key: {x, y, width?, height?}}
  let turn = 0;

  // Asks how the nodes would stand in order, and shows it.
  async function open() {
    if (!edits.check()) return;
    const { graphKey, sheet, selection, nodes } = store.get();
    const chosen = selection.filter((key) => nodes.get(key)?.sheet === sheet);
    const mine = ++turn;
    try {
      const answer = await api.post(app.path`/api/graphs/${graphKey}/tidy`, { sheet, ...(chosen.length > 1 && { nodes: chosen }) }, { isRead: true });
      if (mine === turn && graphKey === store.get().graphKey && sheet === store.get().sheet) show(answer);
    } catch (error) {
      if (!(error instanceof app.ApiError)) throw error;
      app.toast("error", error.message);
    }
  }

  function show(answer) {
    const count = Object.keys(answer.positions).length;
    if (!count) {
      app.toast("info", t("tidy.nothing"));
      return;
    }
    canvas.showGhosts({ nodesMoved: Object.entries(answer.positions).map(asChange) }, { title: t("tidy.title"), onHide: close });
    positions = answer.positions;
    const { crossingsBefore: before, crossingsAfter: after } = answer;
    const said = t(before || after ? "tidy.said" : "tidy.said_none", { n: count, before, after });
    const use = h("button.primary", { type: "button", onclick: apply }, t("tidy.apply"));
    replace(element, h("span", said), h("button", { type: "button", onclick: close }, t("tidy.cancel")), use);
    element.hidden = false;
    use.focus({ preventScroll: true });
  }

  function asChange([key, { x, y, width, height }]) {
    const fields = [{ path: ["posX"], after: x }, { path: ["posY"], after: y }];
    if (width !== undefined) fields.push({ path: ["size"], after: { width, height } });
    return { key, fields };
  }

  async function apply() {
    const moves = Object.entries(positions).map(([key, spot]) => ({ key, ...spot }));
    close();
    for (let i = 0; i < moves.length; i += AT_ONCE) if (!(await edits.move(moves.slice(i, i + AT_ONCE)))) return;
    app.toast("ok", t("tidy.done"), { action: { label: t("canvas.undo"), run: edits.undo } });
    canvas.fit();
  }

  function close() {
    turn += 1;
    if (!positions) return;
    positions = null;
    element.hidden = true;
    canvas.showGhosts(null);
    canvas.focusSelected();
  }

  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    close();
  });
  for (const part of ["graphKey", "sheet", "graphState"]) store.on(part, close);

  return { open, close };
}
