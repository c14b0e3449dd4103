// Code in words of a few kinds, to be coloured: keywords, text, numbers, comments. Pure.

const KEYWORDS = {
  javascript: /^(?:async|await|break|case|catch|class|const|continue|default|delete|do|else|export|extends|false|finally|for|from|function|if|import|in|instanceof|let|new|null|of|return|static|super|switch|this|throw|true|try|typeof|undefined|var|void|while|yield)$/,
  json: /^(?:true|false|null)$/,
  python: /^(?:and|as|assert|async|await|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield)$/,
  sql: /^(?:all|and|as|asc|between|by|case|create|delete|desc|distinct|drop|else|end|exists|from|full|group|having|in|inner|insert|into|is|join|left|like|limit|not|null|offset|on|or|order|outer|returning|right|select|set|table|then|union|update|values|view|when|where|with)$/i,
};
const STRING = /"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?/;
const NUMBER = /\b(?:0[xb][\da-f]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\b/;
const PATTERNS = {
  javascript: [["comment", /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/], ["string", /`(?:\\[\s\S]|[^`\\])*`?/], ["string", STRING], ["number", NUMBER], ["word", /[\p{L}_$][\p{L}\p{N}_$]*/]],
  json: [["string", STRING], ["number", NUMBER], ["word", /[a-z]+/]],
  python: [["comment", /#[^\n]*/], ["string", /"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)/], ["string", STRING], ["number", NUMBER], ["word", /[\p{L}_][\p{L}\p{N}_]*/]],
  sql: [["comment", /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/], ["string", STRING], ["number", NUMBER], ["word", /[\p{L}_][\p{L}\p{N}_]*/]],
};
const MOST_CHARS = 200_000; // longer code is shown without colours

// The language of a text where nothing names it; "" for one that is none of ours.
export function languageOf(text, given = "javascript") {
  if (given.startsWith("python")) return "python";
  if (/^\s*[[{"]/.test(text) && isJson(text)) return "json";
  if (/^\s*(?:select|insert into|update|delete from|with|create)\s/i.test(text) && !/;\s*\n.*[{}]/.test(text)) return "sql";
  return PATTERNS[given] ? given : "";
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// Returns the words of each line, `[[{kind, text}]]`; kind is keyword, string, number, comment or "".
export function linesOfWords(text, language) {
  const lines = [[]];
  for (const word of wordsOf(text, language)) {
    const [first, ...rest] = word.text.split("\n");
    if (first) lines.at(-1).push({ kind: word.kind, text: first });
    for (const part of rest) lines.push(part ? [{ kind: word.kind, text: part }] : []);
  }
  return lines;
}

function* wordsOf(text, language) {
  const patterns = text.length <= MOST_CHARS && PATTERNS[language];
  if (!patterns) return yield { kind: "", text };
  const isKeyword = (word) => KEYWORDS[language].test(word);
  const pattern = new RegExp(patterns.map(([, one]) => `(${one.source})`).join("|"), "gu");
  let at = 0;
  for (const found of text.matchAll(pattern)) {
    if (found.index > at) yield { kind: "", text: text.slice(at, found.index) };
    const [kind] = patterns[found.slice(1).findIndex((part) => part !== undefined)];
    yield { kind: kind !== "word" ? kind : isKeyword(found[0]) ? "keyword" : "", text: found[0] };
    at = found.index + found[0].length;
  }
  if (at < text.length) yield { kind: "", text: text.slice(at) };
  return undefined;
}
