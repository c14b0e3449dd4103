// The schedules that the form offers, and the five fields of cron that each stands for. Pure.

export const KINDS = ["hand", "daily", "weekdays", "weekly", "monthly", "dates", "cron"];
export const WEEK = [1, 2, 3, 4, 5, 6, 0]; // days by their number in cron, as a week is read

const USUAL = { kind: "daily", time: "02:00", days: [1], day: "1", dates: [], cron: "" };

// Returns what the form shows of a schedule `{cron?, dates?}`: its kind, and what belongs to it.
export function choiceOf({ cron, dates } = {}) {
  if (dates?.length) return { ...USUAL, kind: "dates", dates: [...dates] };
  if (!cron) return { ...USUAL, kind: "hand" };
  const [minute, hour, day, month, weekday] = cron.trim().split(/\s+/);
  const isPlain = [minute, hour].every((one) => /^\d{1,2}$/.test(one)) && month === "*";
  const other = { ...USUAL, kind: "cron", cron };
  if (!isPlain) return other;
  const made = { ...USUAL, cron, time: `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}` };
  if (day === "*" && weekday === "*") return { ...made, kind: "daily" };
  if (day === "*" && weekday === "1-5") return { ...made, kind: "weekdays" };
  if (day === "*" && /^[0-7](,[0-7])*$/.test(weekday)) return { ...made, kind: "weekly", days: weekday.split(",").map((one) => Number(one) % 7) };
  if (weekday === "*" && /^(\d{1,2}|L)$/.test(day)) return { ...made, kind: "monthly", day };
  return other;
}

// Returns the schedule of a choice, as the server takes it: `{cron}`, `{dates}` or, when a person starts it, neither.
export function scheduleOf({ kind, time, days, day, dates, cron }) {
  const [hour, minute] = String(time || "0:0").split(":").map(Number);
  const at = `${minute} ${hour}`;
  const week = WEEK.filter((one) => days.includes(one));
  const made = {
    hand: {}, daily: { cron: `${at} * * *` }, weekdays: { cron: `${at} * * 1-5` }, weekly: { cron: `${at} * * ${week.join(",")}` },
    monthly: { cron: `${at} ${day} * *` }, dates: { dates: [...dates] }, cron: { cron: cron.trim() },
  }[kind];
  return { cron: null, dates: null, ...made };
}
