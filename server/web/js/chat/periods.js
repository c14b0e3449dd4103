// The periods that a block may be given, and how instants become one that counts from each run. Pure.
//
// A period is `{from, to}`: `NOW`, an instant with its offset, or `n_UNIT`, the whole calendar unit n units from now.

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const SAME_MS = 60_000; // so near to the moment of a message an end was "now"
const ROUND_DAYS = [0, 1, 7, 30]; // counted in days even when a month begins there

export const PRESETS = {
  today: { from: "0_DAY", to: "NOW" }, yesterday: { from: "-1_DAY", to: "-1_DAY" }, days7: { from: "-7_DAY", to: "NOW" }, days30: { from: "-30_DAY", to: "NOW" },
  last_week: { from: "-1_WEEK", to: "-1_WEEK" }, last_month: { from: "-1_MONTH", to: "-1_MONTH" },
};

const isInstant = (end) => /^\d{4}-/.test(end);
export const isFixed = (period) => Boolean(period) && (isInstant(period.from) || isInstant(period.to));

// What the chooser shows of a period: `none`, a preset, `dates`, or `other`.
export function kindOf(period) {
  if (!period) return "none";
  const found = Object.entries(PRESETS).find(([, { from, to }]) => from === period.from && to === period.to);
  return found?.[0] ?? (isFixed(period) ? "dates" : "other");
}

// The whole days from one date to another (`2026-11-05`), on this clock; one that is not over yet ends now.
export function ofDates(first, last, now) {
  const [from, end] = [new Date(`${first}T00:00`), new Date(`${last}T00:00`)];
  if (Number.isNaN(from.getTime()) || Number.isNaN(end.getTime())) return null;
  end.setDate(end.getDate() + 1);
  return { from: isoOf(from), to: end.getTime() > now ? "NOW" : isoOf(end) };
}

// The first and the last day of a period of instants, as date fields show them.
export function datesOf(period, now) {
  const at = (end) => (isInstant(end) ? new Date(end).getTime() : now);
  return [at(period.from), at(period.to) - 1].map((ms) => isoOf(new Date(ms)).slice(0, 10));
}

function isoOf(date) {
  const minutes = -date.getTimezoneOffset();
  const two = (number) => String(Math.trunc(Math.abs(number))).padStart(2, "0");
  return `${new Date(date.getTime() + minutes * 60_000).toISOString().slice(0, 19)}${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}

// Returns the relative period that instants most likely meant when they were sent (`sent`, in ms since 1970).
//
// Instants are written on the clock by which they were counted: what they say of day and hour is read from them.
export function relativeOf(period, sent) {
  const offset = offsetOf(isInstant(period.to) ? period.to : period.from);
  const now = sent + offset;
  const wall = (end) => (isInstant(end) ? Date.parse(end) + offsetOf(end) : null);
  const [start, stop] = [wall(period.from), wall(period.to)];
  const end = stop === null || Math.abs(stop - now) < SAME_MS ? null : stop;
  const unit = unitOf(start, end, now);
  return {
    from: start === null ? period.from : `${countOf(unit, start, now)}_${unit}`,
    to: stop === null ? period.to : end === null ? "NOW" : `${countOf(unit, end - 1, now)}_${unit}`,
  };
}

function offsetOf(instant) {
  const [, sign, hours, minutes] = /([+-])(\d\d):(\d\d)$/.exec(instant) ?? [null, "+", 0, 0];
  return (sign === "-" ? -1 : 1) * (hours * 60 + Number(minutes)) * 60_000;
}

// The largest unit at whose beginning both ends lie, days where both are none.
function unitOf(start, end, now) {
  const ends = [start, end].filter((one) => one !== null);
  const all = (fits) => ends.every((ms) => ms % DAY_MS === 0 && fits(new Date(ms)));
  const isOpenRound = end === null && ROUND_DAYS.includes(-countOf("DAY", start, now));
  if (!isOpenRound && all((at) => at.getUTCDate() === 1)) return all((at) => at.getUTCMonth() === 0) ? "YEAR" : "MONTH";
  if (end !== null && all((at) => at.getUTCDay() === 1)) return "WEEK";
  if (ends.some((ms) => ms % DAY_MS !== 0) && ends.every((ms) => now - ms < 2 * DAY_MS)) return "HOUR";
  return "DAY";
}

function countOf(unit, ms, now) {
  const [at, from] = [new Date(ms), new Date(now)];
  const monthsApart = (at.getUTCFullYear() - from.getUTCFullYear()) * 12 + at.getUTCMonth() - from.getUTCMonth();
  const days = Math.floor(ms / DAY_MS);
  const monday = (day) => Math.floor((day + 3) / 7); // 1 January 1970 was a Thursday
  const today = Math.floor(now / DAY_MS);
  return { YEAR: at.getUTCFullYear() - from.getUTCFullYear(), MONTH: monthsApart, WEEK: monday(days) - monday(today), DAY: days - today, HOUR: Math.floor(ms / HOUR_MS) - Math.floor(now / HOUR_MS) }[unit];
}
