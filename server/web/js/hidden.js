// Text that people decide on, with nothing in it that hides or reorders the rest.
//
// Source: Boucher and Anderson, "Trojan Source: Invisible Vulnerabilities" (2021): direction overrides and
// isolates make code read otherwise than it runs. Marks that ordinary writing needs (joiners, LRM, RLM) stay.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;

// Returns a text with such characters written as their numbers, `⟨U+202E⟩`, and a carriage return as ␍. Pure.
export function visible(text) {
  return String(text).replaceAll("\r", "␍").replace(HIDDEN, (mark) => `⟨U+${mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}
