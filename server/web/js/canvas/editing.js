// What a person works with on the canvas: read when they first select, open or change something.

import { createClipboard } from "./clipboard.js";
import { createConnecting } from "./connecting.js";
import { createContextMenu } from "./context-menu.js";
import { createFinder } from "./finder.js";
import { createInspector } from "./inspector.js";
import { addItems } from "./menu-items.js";
import { createPalette } from "./palette.js";
import { createRemoving } from "./removing.js";
import { createSheetEdits } from "./sheet-edits.js";
import { createTidy } from "./tidy.js";

export function createEditing({ app, canvas, edits, view, parts, ordered, targetAt }) {
  const palette = createPalette({ app, edits, view, canvas, ordered });
  const connecting = createConnecting({ app, edits, palette, canvas, ordered });
  const inspector = createInspector(parts.inspector, { app, edits, canvas, connecting });
  const clipboard = createClipboard({ app, edits, view, canvas });
  const menu = createContextMenu({ app, stage: parts.stage, view, targetAt });
  addItems({ app, canvas, edits, clipboard, connecting, inspector, palette });
  return { clipboard, connecting, finder: createFinder({ app, canvas }), inspector, menu, palette, removing: createRemoving({ app, edits, stage: parts.stage }), sheetEdits: createSheetEdits({ app, edits }), tidy: createTidy({ app, edits, canvas, element: parts.tidy }) };
}
