// The dialog of keyboard shortcuts.

import { h } from "./dom.js";

const CANVAS = [
  [["Tab", "⇧ Tab"], "tab"], [["Enter"], "enter"], [["←", "↑", "→", "↓"], "arrows"], [["⇧ ←↑→↓"], "shift_arrows"],
  [["+", "−"], "zoom"], [["N"], "add"], [["A"], "add_after"], [["C"], "connect"], [["Ctrl C", "Ctrl X", "Ctrl V"], "clipboard"], [["Ctrl D"], "duplicate"], [["⇧ F10"], "menu"], [["Ctrl F"], "find"], [["F"], "fit"], [["0"], "hundred"], [["Del"], "delete"], [["Ctrl Z", "Ctrl ⇧ Z"], "undo"],
  [["Ctrl A"], "select_all"], [["PgUp", "PgDn"], "sheet"], [["Esc"], "escape"],
];
const REVIEW = [[["J", "K"], "review_move"], [["A", "R", "E"], "review_decide"], [["U"], "review_undo"], [["C"], "review_comment"], [["O"], "review_code"]];
const PAGE = [[["Ctrl K"], "find_all"], [["F6"], "region"], [["/"], "message"], [["Alt 1", "… 9"], "panels"], [["?"], "help"]];

export function showHelp({ t, openDialog }) {
  const list = (rows) => h("dl.keys", rows.map(([keys, name]) => [
    h("dt", keys.map((key) => h("kbd", key))), h("dd", t(`help.${name}`)),
  ]));
  openDialog({
    title: t("help.title"), wide: true,
    content: h("div.help", h("section", h("h3", t("help.canvas")), list(CANVAS)), h("section", h("h3", t("help.page")), list(PAGE), h("h3", t("help.review")), list(REVIEW), h("p.muted", t("help.mouse")), h("p", h("a", { href: "/docs", target: "_blank", rel: "opener" }, t("help.api"))))),
  });
}
