// Texts of the page in the language that is chosen. The server sends the catalogue; a text that is missing shows its key.

// The languages by code, each with its name in it, as the server writes them into the page.
const languages = () => JSON.parse(document.documentElement.dataset.languages ?? '{"en":""}');
export const languageName = (lang) => languages()[lang];
const catalogues = {};
const missing = new Set();
const read = new Map(); // file -> when its texts are there
let parts = [".first"]; // joined files: the texts of the first view, and those of what is imported later

// Loads the texts of a language, once. Rejects when the server cannot be reached.
export async function loadTexts(lang) {
  const { built } = document.documentElement.dataset;
  await Promise.all(built ? parts.map((part) => loadFile(lang, `${built}/${lang}${part}.json`)) : [loadFile(lang, `/messages/${lang}.json`)]);
}

// Loads what the first view did not need. The joined scripts wait for it before a module that came later runs.
export async function loadLaterTexts() {
  parts = [".first", ".later"];
  try {
    await Promise.all(Object.keys(catalogues).map(loadTexts));
  } catch {
    throw new Error("messages: later");
  }
}

function loadFile(lang, file) {
  if (!read.has(file)) read.set(file, readFile(lang, file).catch((error) => (read.delete(file), Promise.reject(error))));
  return read.get(file);
}

async function readFile(lang, file) {
  const answer = await fetch(file);
  if (!answer.ok) throw new Error(`messages: ${answer.status}`);
  addTexts(lang, await answer.json());
}

// Gives the texts of a language where they came with the page.
export function addTexts(lang, texts) {
  catalogues[lang] = { ...catalogues[lang], ...texts };
}

export function createTranslator(language) {
  // t("nodes", {n: 3}): {n} is replaced; a text {one, other} is chosen by n. t.has("nodes"): whether there is one.
  function t(key, facts = {}) {
    const lang = language();
    let text = catalogues[lang][key];
    if (text === undefined) {
      if (!missing.has(key)) console.warn(`no text for ${key}`);
      missing.add(key);
      return key;
    }
    if (typeof text === "object") text = text[new Intl.PluralRules(lang).select(facts.n ?? 0)] ?? text.other;
    return text.replace(/\{(\w+)\}/g, (place, name) => (name in facts ? shown(facts[name], lang) : place));
  }
  t.has = (key) => key in catalogues[language()];
  return t;
}

function shown(value, lang) {
  return typeof value === "number" ? value.toLocaleString(lang) : String(value);
}

export function preferredLanguage(given) {
  const known = [given, (navigator.language ?? "").slice(0, 2)].filter((lang) => lang in languages());
  return known[0] ?? "en";
}

// The language after one, in a circle.
export function nextLanguage(lang) {
  const codes = Object.keys(languages());
  return codes[(codes.indexOf(lang) + 1) % codes.length];
}
