// What is said of connections and of where a graph stands.

import { h } from "../dom.js";
import { ago } from "../names.js";

const KINDS = { in_step: "is-good", changed_here: "is-live", changed_there: "is-live", changed_both: "is-warn", conflict: "is-warn", refused: "is-bad", gone: "is-bad", unreachable: "is-bad" };

export const PRODUCTS = { n8n: "n8n", "node-red": "Node-RED" };

// Where a workflow and its graph stand, in a word.
export const stateElement = ({ t }, state) => h("span.link-state", { class: KINDS[state] }, t(`servers.state.${state}`));

// The same in a sentence.
export function stateText({ t, store }, { state, kind, unreachableSince, reason }) {
  const sentence = t(`servers.says.${state}`, { product: PRODUCTS[kind] });
  const since = unreachableSince && t("servers.away_since", { when: ago(unreachableSince, store.get().lang, t) });
  return [sentence, reason, since].filter(Boolean).join(" ");
}

export function pageLink({ t }, { kind, page, name }) {
  const label = t("servers.open_there", { product: PRODUCTS[kind] });
  return h("a.button", { href: page, target: "_blank", rel: "noopener noreferrer", "aria-label": `${label}: ${name}` }, label);
}
