// Markdown as DOM nodes: text from a model is shown, never run.
//
// Every node is made with createElement and textContent; HTML in the text is text. Known: headings,
// lists, quotes, tables, code, rules, emphasis, links to http(s), and the client links
// `{{node:KEY}}`, which `options.link(kind, body)` turns into a node. A name in quotation marks after such
// a link, which is for those who see no more than the key, is left out where the link shows it itself.
// `options.isLabel`: headings are no headings of the page.

import { h } from "./dom.js";

const MAX_DEPTH = 6;
const ESCAPED = /^\\([\\`*_{}[\]()#+\-.!|~>])/;
const WEB = /^https?:\/\/[^\s<>"'`{}|\\]+/i;
const NAMED_LINK = /^\[([^[\]\n]{1,500})\]\((https?:\/\/[^\s()<>"']{1,2000})\)/i;
const CLIENT_LINK =
  /^\{\{[ \t]*(node|select|highlight|fitArea|sheet|graph|html|nodeConfig|link)[ \t]*:([^{}\n]{1,4000})\}\}/;
const QUOTED_NAME = /^ ?(?:“([^“”\n]{1,200})”|"([^"\n]{1,200})"|«\s?([^«»\n]{1,200}?)\s?»)/;
const SPECIAL = /[\\`*_~[{\nhH]/g;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]{0,40})/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])[ \t]+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

// Shows a growing text in `element`; only blocks that changed are made again.
export function createMarkdown(element, options = {}) {
  let shown = [];
  return {
    update(text) {
      const blocks = splitBlocks(text);
      let same = 0;
      while (same < shown.length && same < blocks.length && shown[same].source === blocks[same].source) same += 1;
      for (const old of shown.slice(same)) old.node.remove();
      const fresh = blocks.slice(same).map((block) => ({ source: block.source, node: renderBlock(block, options, 0) }));
      element.append(...fresh.map((block) => block.node));
      shown = [...shown.slice(0, same), ...fresh];
    },
  };
}

// Splits a text into blocks: `{kind, source, …}`. Pure.
export function splitBlocks(text) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const block = blockAt(lines, at);
    block.source = `${block.kind}\n${lines.slice(at, block.end).join("\n")}`;
    blocks.push(block);
    at = block.end;
  }
  return blocks;
}

function blockAt(lines, at) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return { kind: "heading", level: heading[1].length, text: heading[2], end: at + 1 };
  if (RULE.test(line)) return { kind: "rule", end: at + 1 };
  if (QUOTE.test(line)) return quoted(lines, at);
  if (ITEM.test(line)) return listed(lines, at);
  if (isTable(lines, at)) return tabled(lines, at);
  return paragraph(lines, at);
}

function fenced(lines, at, fence) {
  const mark = fence[1];
  let end = at + 1;
  const isEnd = (line) => {
    const bare = line.trim();
    return bare.length >= mark.length && bare === mark[0].repeat(bare.length);
  };
  while (end < lines.length && !isEnd(lines[end])) end += 1;
  return { kind: "code", language: fence[2], text: lines.slice(at + 1, end).join("\n"), end: Math.min(end + 1, lines.length) };
}

function quoted(lines, at) {
  let end = at;
  const inner = [];
  while (end < lines.length && QUOTE.test(lines[end])) inner.push(QUOTE.exec(lines[end++])[1]);
  return { kind: "quote", text: inner.join("\n"), end };
}

function listed(lines, at) {
  const first = ITEM.exec(lines[at]);
  const indent = first[1].length;
  const ordered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  let content = 0;
  while (end < lines.length) {
    const line = lines[end];
    const item = ITEM.exec(line);
    if (item && item[1].length <= indent + 1 && !RULE.test(line)) {
      if (item[1].length < indent || /\d/.test(item[2]) !== ordered) break;
      content = item[1].length + item[2].length + 1;
      items.push([item[3]]);
    } else if (!line.trim()) {
      const next = lines[end + 1];
      if (next === undefined || !(ITEM.test(next) || /^ {2,}\S/.test(next))) break;
      items.at(-1).push("");
    } else if (/^\s/.test(line) && items.length) {
      items.at(-1).push(line.slice(Math.min(content, line.length - line.trimStart().length)));
    } else break;
    end += 1;
  }
  return { kind: "list", ordered, start: ordered ? Number.parseInt(first[2], 10) : 1, items: items.map((i) => i.join("\n")), end };
}

function isTable(lines, at) {
  const rule = lines[at + 1];
  return lines[at].includes("|") && rule !== undefined && rule.includes("-") && TABLE_RULE.test(rule)
    && cells(lines[at]).length === cells(rule).length;
}

function tabled(lines, at) {
  const head = cells(lines[at]);
  const rows = [];
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) rows.push(cells(lines[end++]));
  return { kind: "table", head, rows, end };
}

// Cells of a table's row; a `|` within a code span, a client link or after a backslash parts nothing.
function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "");
  const found = [""];
  for (const piece of inner.match(/\\\||`[^`]*`|\{\{[^{}]*\}\}|[^|\\`{]+|[\s\S]/g) ?? []) {
    if (piece === "|") found.push("");
    else found[found.length - 1] += piece === "\\|" ? "|" : piece;
  }
  return found.map((cell) => cell.trim());
}

function paragraph(lines, at) {
  let end = at + 1;
  const ends = (line, index) => !line.trim() || FENCE.test(line) || HEADING.test(line) || RULE.test(line)
    || QUOTE.test(line) || ITEM.test(line) || isTable(lines, index);
  while (end < lines.length && !ends(lines[end], end)) end += 1;
  return { kind: "paragraph", text: lines.slice(at, end).map((line) => line.trimStart()).join("\n"), end };
}

function renderBlock(block, options, depth) {
  switch (block.kind) {
    case "heading":
      return h(options.isLabel ? "div" : `h${Math.min(block.level + 2, 6)}`, { class: `md-h${block.level}` }, ...inline(block.text, options));
    case "code":
      return codeBlock(block, options);
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", ...nested(block.text, options, depth));
    case "list":
      return list(block, options, depth);
    case "table":
      return table(block, options);
    default:
      return h("p", ...inline(block.text, options));
  }
}

function nested(text, options, depth) {
  if (depth >= MAX_DEPTH) return [document.createTextNode(text)];
  return splitBlocks(text).map((block) => renderBlock(block, options, depth + 1));
}

function list(block, options, depth) {
  const items = block.items.map((text) => {
    const made = nested(text, options, depth);
    const isPlain = made[0] instanceof Element && made[0].tagName === "P";
    return h("li", ...(isPlain ? [...made[0].childNodes, ...made.slice(1)] : made));
  });
  return block.ordered ? h("ol", block.start === 1 ? {} : { start: String(block.start) }, ...items) : h("ul", ...items);
}

function table(block, options) {
  const row = (texts, tag) => h("tr", ...block.head.map((_, i) => h(tag, tag === "th" ? { scope: "col" } : {}, ...inline(texts[i] ?? "", options))));
  return h("div.md-table", { tabindex: "0" },
    h("table", h("thead", row(block.head, "th")), h("tbody", ...block.rows.map((texts) => row(texts, "td")))));
}

function codeBlock(block, options) {
  const copy = options.copyLabel && h("button.md-copy", { type: "button", }, options.copyLabel);
  copy?.addEventListener("click", () => options.copy(block.text, copy));
  return h("div.md-code",
    h("div.md-code-top", h("span", block.language || ""), copy || ""),
    h("pre", { tabindex: "0" }, h("code", block.text)));
}

// Returns the nodes of a line of text.
export function inline(text, options = {}, depth = 0) {
  const nodes = [];
  const missing = new Set();
  let plain = "";
  const flush = () => {
    if (plain) nodes.push(document.createTextNode(plain));
    plain = "";
  };
  let at = 0;
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const special = SPECIAL.exec(text);
    const stop = special ? special.index : text.length;
    plain += text.slice(at, stop);
    at = stop;
    if (at >= text.length) break;
    const found = span(text, at, options, depth, missing);
    if (found === null) {
      plain += text[at];
      at += 1;
    } else {
      if (typeof found.node === "string") plain += found.node;
      else {
        flush();
        nodes.push(found.node);
      }
      at = found.end;
    }
  }
  flush();
  return nodes;
}

function span(text, at, options, depth, missing) {
  const char = text[at];
  if (char === "\n") return { node: h("br"), end: at + 1 };
  if (char === "\\") {
    const escaped = ESCAPED.exec(text.slice(at, at + 2));
    return escaped && { node: escaped[1], end: at + 2 };
  }
  if (char === "`") return codeSpan(text, at, missing);
  if (char === "{") return clientLink(text, at, options);
  if (char === "[") return namedLink(text, at, options, depth);
  if (char === "h" || char === "H") return bareLink(text, at);
  return emphasis(text, at, options, depth, missing);
}

function codeSpan(text, at, missing) {
  const mark = /^`+/.exec(text.slice(at, at + 40))[0];
  if (missing.has(mark)) return { node: mark, end: at + mark.length };
  const close = text.indexOf(mark, at + mark.length);
  if (close < 0) {
    missing.add(mark);
    return { node: mark, end: at + mark.length };
  }
  return { node: h("code", text.slice(at + mark.length, close).trim() || " "), end: close + mark.length };
}

function clientLink(text, at, options) {
  if (!options.link || text[at + 1] !== "{") return null;
  const found = CLIENT_LINK.exec(text.slice(at, at + 4100));
  if (!found) return null;
  const node = options.link(found[1], found[2].trim());
  const end = at + found[0].length;
  return node && { node, end: end + said(text.slice(end, end + 300), node.textContent) };
}

// How many characters of a text repeat, in quotation marks, the name that stands before it.
function said(text, name) {
  const quoted = QUOTED_NAME.exec(text);
  if (!quoted) return 0;
  const words = (quoted[1] ?? quoted[2] ?? quoted[3]).trim();
  const isCut = words.endsWith("…") && name.startsWith(words.slice(0, -1).trimEnd());
  return words && (words === name.trim() || isCut) ? quoted[0].length : 0;
}

function namedLink(text, at, options, depth) {
  const found = NAMED_LINK.exec(text.slice(at, at + 2600));
  if (!found) return null;
  const inner = depth < MAX_DEPTH ? inline(found[1], options, depth + 1) : [found[1]];
  return { node: webLink(found[2], ...inner), end: at + found[0].length };
}

function bareLink(text, at) {
  if (at > 0 && /\w/.test(text[at - 1])) return null;
  const found = WEB.exec(text.slice(at, at + 2000));
  if (!found) return null;
  const url = found[0].replace(/[.,;:!?)\]*_~]+$/, "");
  return url.length > 8 ? { node: webLink(url, url), end: at + url.length } : null;
}

// Returns a link that opens elsewhere and tells nothing of this page; for another scheme plain text.
export function webLink(url, ...children) {
  if (!WEB.test(url)) return h("span", ...children);
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow", title: url }, ...children);
}

function emphasis(text, at, options, depth, missing) {
  const char = text[at];
  const double = text[at + 1] === char;
  if (char === "~" && !double) return null;
  const mark = double ? char + char : char;
  const next = text[at + mark.length];
  const opens = next !== undefined && !/\s/.test(next) && !(char === "_" && /\w/.test(text[at - 1] ?? ""));
  if (!opens || depth >= MAX_DEPTH || missing.has(mark)) return { node: mark, end: at + mark.length };
  const close = closing(text, at + mark.length, mark);
  if (close < 0) {
    missing.add(mark);
    return { node: mark, end: at + mark.length };
  }
  const tag = char === "~" ? "del" : double ? "strong" : "em";
  return { node: h(tag, {}, ...inline(text.slice(at + mark.length, close), options, depth + 1)), end: close + mark.length };
}

function closing(text, from, mark) {
  for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, at + 1)) {
    const inCode = mark.length === 1 && (text[at + 1] === mark || text[at - 1] === mark);
    const ends = !/\s/.test(text[at - 1]) && !(mark[0] === "_" && /\w/.test(text[at + mark.length] ?? ""));
    if (at > from && ends && !inCode && text[at - 1] !== "\\") return at;
  }
  return -1;
}
