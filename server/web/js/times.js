// Times as people say them.

const STEPS = [["year", 31_536_000], ["month", 2_592_000], ["day", 86_400], ["hour", 3_600], ["minute", 60]];

// "5 minutes ago", in a language. Units: milliseconds since 1970.
export function ago(time, lang, t) {
  const seconds = Math.round((time - Date.now()) / 1000);
  for (const [unit, length] of STEPS) {
    if (Math.abs(seconds) >= length) return new Intl.RelativeTimeFormat(lang, { numeric: "auto" }).format(Math.trunc(seconds / length), unit);
  }
  return t("time.now");
}
