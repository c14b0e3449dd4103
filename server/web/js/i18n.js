// Texts of the page in the language that is chosen. A text that is missing shows its key, and is reported.

import en from "./messages/en.js";
import fr from "./messages/fr.js";

const CATALOGUES = { en, fr };
export const LANGUAGES = Object.keys(CATALOGUES);
const missing = new Set();

// Adds texts of a part of the page: {en: {...}, fr: {...}}.
export function addMessages(catalogues) {
  for (const [language, texts] of Object.entries(catalogues)) Object.assign(CATALOGUES[language], texts);
}

export function createTranslator(language) {
  // t("nodes", {n: 3}): {n} is replaced; a text {one, other} is chosen by n.
  return function t(key, facts = {}) {
    const lang = language();
    let text = CATALOGUES[lang]?.[key] ?? CATALOGUES.en[key];
    if (text === undefined) {
      if (!missing.has(key)) {
        missing.add(key);
        console.warn(`no text for ${key}`);
      }
      return key;
    }
    if (typeof text === "object") text = text[new Intl.PluralRules(lang).select(facts.n ?? 0)] ?? text.other;
    return text.replace(/\{(\w+)\}/g, (place, name) => (name in facts ? shown(facts[name], lang) : place));
  };
}

function shown(value, lang) {
  return typeof value === "number" ? value.toLocaleString(lang) : String(value);
}

export function preferredLanguage(given) {
  return LANGUAGES.includes(given) ? given : (navigator.language ?? "").startsWith("fr") ? "fr" : "en";
}
