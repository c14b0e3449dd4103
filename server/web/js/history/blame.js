// Who gave each field of a node its value, when and why.

import { ApiError } from "../api.js";
import { h, replace } from "../dom.js";
import { fieldName, personName, timeText } from "../names.js";

// Fills a list with the origins of a node's fields; those of one change stand together, the latest first.
export async function fillBlame(app, element, node) {
  const { api, path, store, t } = app;
  const { graphKey, lang } = store.get();
  try {
    const { fields, cut } = await api.get(path`/api/graphs/${graphKey}/blame`, { node });
    const groups = Map.groupBy(fields, (one) => `${one.time} ${one.approvalId ?? ""}`);
    const rows = [...groups.values()].sort(([one], [other]) => other.time - one.time).map((group) => row(group));
    replace(element, rows.length ? h("ul.blame", rows) : "", cut || !rows.length ? h("p.note", t("blame.unknown")) : "");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    replace(element, h("p.warn-text", error.message));
  }

  function row(group) {
    const [one] = group;
    const names = group.map(({ field }) => fieldName(t, field)).join(", ");
    const asked = one.asker && one.asker !== one.by ? t("card.asked_by", { who: personName(app, one.asker) }) : "";
    const facts = [personName(app, one.by), timeText(one.time, lang), t(`blame.${one.kind}`), asked, one.turn ? t("blame.turn", { n: one.turn }) : "", one.automationId ? t("blame.run") : ""];
    const open = () => store.set({ panel: "review", reviewShown: one.approvalId });
    return h("li", h("strong", names), h("div.muted", facts.filter(Boolean).join(" · ")), one.reason ? h("div", one.reason) : "",
      one.approvalId ? h("button.link", { type: "button", onclick: open }, one.what) : "");
  }
}
