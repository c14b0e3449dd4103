// Entries of the audit log as comma-separated values. Pure.

// Source: RFC 4180; cells that a spreadsheet would run as a formula begin with an apostrophe (OWASP, "CSV Injection").
const cell = (value) => {
  const text = String(value ?? "");
  const safe = /^[=+\-@\t\r]/.test(text) && typeof value !== "number" ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

// Returns rows of the same fields as one text, their names first.
export function csvOf(rows) {
  const names = Object.keys(rows[0] ?? {});
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}
