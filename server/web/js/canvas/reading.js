// What a graph shows beyond its names: what nodes do, where the others are. It is read after the first view.

import { createFarNames } from "./far-names.js";
import { createHighlights } from "./highlights.js";
import { createMeanings } from "./meanings.js";
import { createPresence } from "./presence.js";
import { createServiceIcons } from "./service-icons.js";

const REST_MS = 120; // without moves or changes, until what is seen now is looked at

export function createReading({ app, canvas, nodes, edges, parts, view, detail, far, ordered }) {
  const farNames = createFarNames(parts.farNames, { view, detail, ordered, state: app.store.get });
  const highlights = createHighlights({ nodes, edges, far, legend: parts.outcomeLegend, view, app, select: canvas.select, fit: canvas.fit });
  const meanings = createMeanings({ app, nodes });
  const serviceIcons = createServiceIcons({ app, nodes, stage: parts.stage });
  const presence = createPresence({ stage: parts.stage, layer: parts.others, view, app, preview: canvas.preview });
  let resting = 0;

  // The view or the graph changed.
  function look() {
    farNames.follow();
    presence.draw();
    clearTimeout(resting);
    resting = setTimeout(rest, REST_MS);
  }

  function rest() {
    farNames.paint();
    meanings.ask();
    serviceIcons.ask();
  }

  look();
  return { look, highlights, dragged: presence.dragged };
}
