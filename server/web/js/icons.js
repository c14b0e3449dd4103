// Pictures of the page and of node types: strokes on a grid of 24, drawn for this page.

import { svg } from "./dom.js";

const STROKES = {
  close: "M6 6l12 12M18 6 6 18",
  check: "M5 12.500l4.500 4.500L19 7.500",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  add_node: "M12 5H6a2 2 0 0 0-2 2v10a2 2 0 0 0 2 2h10a2 2 0 0 0 2-2v-5M18 3v6M15 6h6",
  info: "M12 11v6M12 7.200v.1M3.500 12a8.500 8.500 0 1 0 17 0a8.500 8.500 0 1 0-17 0",
  warn: "M12 4 2.800 19.500h18.400zM12 10v4.500M12 17v.1",
  error: "M3.500 12a8.500 8.500 0 1 0 17 0a8.500 8.500 0 1 0-17 0M12 7.500v5M12 16v.1",
  graph: "M3 5h6v5H3zM15 14h6v5h-6zM9 7.500h3a3 3 0 0 1 3 3v3a3 3 0 0 0 0 3",
  tidy: "M3.500 4.500h6v5h-6zM14.500 4.500h6v5h-6zM14.500 14.500h6v5h-6zM9.500 7h5M12 7v10h2.500",
  fit: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  sun: "M8 12a4 4 0 1 0 8 0a4 4 0 1 0-8 0M12 2.500v2M12 19.500v2M2.500 12h2M19.500 12h2M5.300 5.300l1.400 1.400M17.300 17.300l1.400 1.400M18.700 5.300l-1.400 1.400M6.700 17.300l-1.400 1.400",
  moon: "M19.500 14.500A8 8 0 0 1 9.500 4.500a8 8 0 1 0 10 10z",
  system: "M3.500 5h17v11h-17zM8.500 20h7M12 16v4",
  keyboard: "M2.500 6.500h19v11h-19zM6 10v.1M9 10v.1M12 10v.1M15 10v.1M18 10v.1M7 14h10",
  chevron: "M7 10l5 5 5-5",
  undo: "M8 5 4 9l4 4M4 9h10a6 6 0 0 1 0 12h-4",
  redo: "M16 5l4 4-4 4M20 9H10a6 6 0 0 0 0 12h4",
  history: "M4 12a8 8 0 1 0 2.600-5.900L4 8.500M4 4v4.500h4.500M12 8v4.500l3 2",
  trash: "M4.500 7h15M9 7V4.500h6V7M6.500 7l1 12.500h9l1-12.500M10 10.500v6M14 10.500v6",
  upload: "M12 16V5M7.500 9.500 12 5l4.500 4.500M4.500 15v4.500h15V15",
  download: "M12 5v11M7.500 11.500 12 16l4.500-4.500M4.500 15v4.500h15V15",
  chat: "M4 5h16v11h-8.500L7 20v-4H4z",
  review: "M5 4h14v16H5zM8.500 9.500l1.500 1.500 2.500-3M8.500 15.500l1.500 1.500 2.500-3M15 10h1M15 16h1",
  today: "M12 3v2.500M4.900 6.900l1.800 1.800M19.100 6.900l-1.800 1.800M2.500 15h2.500M19 15h2.500M7.500 15a4.500 4.500 0 0 1 9 0M3 19h18",
  automations: "M4 12.500a8 8 0 1 0 16 0a8 8 0 1 0-16 0M12 8v4.500l3 2M3 6.500 6.500 3.500M21 6.500l-3.500-3",
  agents: "M5 9h14v10H5zM12 9V5M12 4v.1M9 13v1.500M15 13v1.500M2.500 13v3M21.500 13v3",
  calls: "M6.500 3.500h3l1.500 4.500-2 1.500a12 12 0 0 0 5.500 5.500l1.500-2 4.500 1.500v3a2 2 0 0 1-2 2A15.500 15.500 0 0 1 4.500 5.500a2 2 0 0 1 2-2z",
  microphone: "M9.500 6a2.500 2.500 0 0 1 5 0v5a2.500 2.500 0 0 1-5 0zM5.500 11a6.500 6.500 0 0 0 13 0M12 17.500V21",
  plug: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
  threads: "M4 6.500h16M4 12h16M4 17.500h10",
  pencil: "M4.500 19.500l1-4L16 5l3 3L8.500 18.500z",
  copy: "M8.500 8.500h11v11h-11zM15.500 8.500v-4h-11v11h4",
  sheets: "M12 4 3.500 8.500 12 13l8.500-4.500zM3.500 12.500 12 17l8.500-4.500M3.500 16.500 12 21l8.500-4.500",
  person: "M8.500 8a3.500 3.500 0 1 0 7 0a3.500 3.500 0 1 0-7 0M4.500 20a7.500 7.500 0 0 1 15 0",
  exit: "M10 4.500H4.500v15H10M14 8l4 4-4 4M18 12H9",
  save: "M5 4.500h11l3.500 3.500v11.500H5zM8.500 4.500V9h6V4.500M8.500 19.500V14h7v5.500",
  move: "M12 3v18M3 12h18M9.500 5.500 12 3l2.500 2.500M9.500 18.500 12 21l2.500-2.500M5.500 9.500 3 12l2.500 2.500M18.500 9.500 21 12l-2.500 2.500",
  more: "M5 12a1 1 0 1 0 2 0a1 1 0 1 0-2 0M11 12a1 1 0 1 0 2 0a1 1 0 1 0-2 0M17 12a1 1 0 1 0 2 0a1 1 0 1 0-2 0",
  search: "M5 10.500a5.500 5.500 0 1 0 11 0a5.500 5.500 0 1 0-11 0M15 15l5 5",
  stop: "M7 7h10v10H7z",
  send: "M12 19V5M6 11l6-6 6 6",
  retry: "M20 12a8 8 0 1 1-2.600-5.900L20 8.500M20 4v4.500h-4.500",
  eye: "M2.500 12s3.500-6.500 9.500-6.500 9.500 6.500 9.500 6.500-3.500 6.500-9.500 6.500S2.500 12 2.500 12zM9.500 12a2.500 2.500 0 1 0 5 0a2.500 2.500 0 1 0-5 0",
  Play: "M7.500 4.500v15l12-7.500z",
  CornerDownLeft: "M19.500 5v7a3 3 0 0 1-3 3H4.500M9 10.500 4.500 15 9 19.500",
  AppWindow: "M3.500 5h17v14h-17zM3.500 9.500h17M6.500 7.200v.1M9.500 7.200v.1",
  TextCursorInput: "M4 7h16v10H4zM8 10v4",
  Globe: "M3.500 12a8.500 8.500 0 1 0 17 0a8.500 8.500 0 1 0-17 0M3.500 12h17M12 3.500c5 5 5 12 0 17c-5-5-5-12 0-17",
  Filter: "M4 5h16l-6.500 7.500V19l-3-2v-4.500z",
  Shuffle: "M3.500 7H7l9 10h4.500M3.500 17H7l2.500-2.800M13.500 9.800 16 7h4.500M18 4.500 20.500 7 18 9.500M18 14.500l2.500 2.500-2.500 2.500",
  ScrollText: "M7 4h12v13a3 3 0 0 1-3 3H6a2 2 0 0 1-2-2v-2h9v1.500M10 8h6M10 12h6M7 4a2 2 0 0 0-2 2v10",
  StickyNote: "M4.500 4.500h15v9.500l-5.500 5.500h-9.500zM19.500 14H14v5.500",
  Group: "M4 8V4h4M16 4h4v4M20 16v4h-4M8 20H4v-4M8 8h5v5H8zM13 11h3.500v5.500H11V13",
  Zap: "M13 3 5 13.500h6L10.500 21 19 10h-6z",
  Box: "M12 3.500l8 4.500v8l-8 4.500-8-4.500V8zM4 8l8 4.500L20 8M12 12.500v8",
  GitBranch: "M7 8v8M4.500 5.500a2.500 2.500 0 1 0 5 0a2.500 2.500 0 1 0-5 0M4.500 18.500a2.500 2.500 0 1 0 5 0a2.500 2.500 0 1 0-5 0M14.500 7.500a2.500 2.500 0 1 0 5 0a2.500 2.500 0 1 0-5 0M17 10c0 4-6 3-10 6",
  Bot: "M5 9h14v10H5zM12 9V5M12 4v.1M9 13v1.500M15 13v1.500M2.500 13v3M21.500 13v3",
  Code: "M8.500 7 3.500 12l5 5M15.500 7l5 5-5 5M13.500 4.500l-3 15",
  Database: "M4.500 6c0-3.500 15-3.500 15 0s-15 3.500-15 0M4.500 6v12c0 3.500 15 3.500 15 0V6M4.500 12c0 3.500 15 3.500 15 0",
  Settings: "M4 7h9M17 7h3M4 17h3M11 17h9M13 7a2 2 0 1 0 4 0a2 2 0 1 0-4 0M7 17a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
  Workflow: "M3.500 3.500h7v7h-7zM13.500 13.500h7v7h-7zM7 10.500V14a3 3 0 0 0 3 3h3.500",
  ChartBar: "M4 20h16M7 20v-6M12 20V6M17 20v-9",
  Mail: "M3.500 6h17v12h-17zM3.500 7l8.500 6.500L20.500 7",
  Clock: "M3.500 12a8.500 8.500 0 1 0 17 0a8.500 8.500 0 1 0-17 0M12 7v5.500l3.500 2",
  User: "M8.500 8a3.500 3.500 0 1 0 7 0a3.500 3.500 0 1 0-7 0M4.500 20a7.500 7.500 0 0 1 15 0",
  File: "M6 3.500h8l4.500 4.500v12.500H6zM13.500 3.500V8.500h5",
  Table: "M3.500 5h17v14h-17zM3.500 10h17M3.500 14.500h17M10 10v9",
};

const outlines = new Map(); // of services: filled, not stroked
const ofTypes = new Map(); // node type -> the name of its picture

// Takes outlines of services by name, and the pictures of node types.
export function learnIcons(paths, types) {
  for (const [name, path] of Object.entries(paths)) outlines.set(name, path);
  for (const [type, name] of types) ofTypes.set(type, name);
}

export const iconOfType = (type) => ofTypes.get(type);

export function hasIcon(name) {
  return Object.hasOwn(STROKES, name);
}

export function icon(name, props = {}) {
  const outline = outlines.get(name);
  return svg("svg.icon", { class: outline && "is-outline", viewBox: "0 0 24 24", "aria-hidden": "true", ...props },
    svg("path", { d: outline ?? STROKES[name] ?? STROKES.Box }));
}
