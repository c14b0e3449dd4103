// The dialog of keyboard shortcuts.

import { h } from "./dom.js";

const CANVAS = [
  [["Tab", "⇧ Tab"], "tab"], [["Enter"], "enter"], [["←", "↑", "→", "↓"], "arrows"], [["⇧ ←↑→↓"], "shift_arrows"],
  [["+", "−"], "zoom"], [["N"], "add"], [["Ctrl F"], "find"], [["F"], "fit"], [["0"], "hundred"], [["Del"], "delete"], [["Ctrl Z", "Ctrl ⇧ Z"], "undo"],
  [["Ctrl A"], "select_all"], [["PgUp", "PgDn"], "sheet"], [["Esc"], "escape"],
];
const PAGE = [[["F6"], "region"], [["/"], "message"], [["Alt 1", "… 6"], "panels"], [["?"], "help"]];

export function showHelp({ t, openDialog }) {
  const list = (rows) => h("dl.keys", rows.map(([keys, name]) => [
    h("dt", keys.map((key) => h("kbd", key))), h("dd", t(`help.${name}`)),
  ]));
  openDialog({
    title: t("help.title"), wide: true,
    content: h("div.help", h("section", h("h3", t("help.canvas")), list(CANVAS)), h("section", h("h3", t("help.page")), list(PAGE), h("p.muted", t("help.mouse")))),
  });
}
