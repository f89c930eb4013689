// Figures, times and the names of states in words. No element is made here but <time>, which keeps itself up to date.
import { el, shown } from "./dom.js";

const MINUTE = 60,
  HOUR = 3600,
  DAY = 86400;
let ahead_us = 0; // by how much the server's clock is ahead of this one

export const setServerTime = (now_us) => {
  if (typeof now_us === "number") ahead_us = now_us - Date.now() * 1000;
};
export const serverNow = () => Date.now() * 1000 + ahead_us;

// A length of time, to two digits or so: 12 s, 5 min, 3 h, 2 d.
export const span = (seconds) => {
  const s = Math.max(0, Math.round(seconds));
  if (s < 2 * MINUTE) return `${s} s`;
  if (s < 2 * HOUR) return `${Math.round(s / MINUTE)} min`;
  return s < 2 * DAY ? `${Math.round(s / HOUR)} h` : `${Math.round(s / DAY)} d`;
};

const two = (number) => String(number).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export const clock = (us, seconds = true) => {
  const at = new Date(us / 1000);
  return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}${seconds ? `:${two(at.getUTCSeconds())}` : ""}`;
};
export const moment = (us) => {
  const at = new Date(us / 1000);
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${clock(us, false)}`;
};
const full = (us) => `${new Date(us / 1000).toISOString().slice(0, 19).replace("T", " ")} UTC`;

const isTime = (us) => typeof us === "number" && Number.isFinite(us) && Math.abs(us) < 8.6e18;

// A time as its age, with the time itself in the title.
export const ago = (us) => {
  if (!isTime(us)) return el("span", { class: "soft" }, "never");
  const text = `${span((serverNow() - us) / 1e6)} ago`;
  return el("time", { datetime: new Date(us / 1000).toISOString(), title: full(us), "data-at": us }, text);
};
export const at = (us) =>
  isTime(us) ? el("time", { datetime: new Date(us / 1000).toISOString(), title: full(us) }, moment(us)) : "unknown";

const MILLISECOND_TICK = 5000;
setInterval(() => {
  for (const each of document.querySelectorAll("time[data-at]")) {
    const text = `${span((serverNow() - Number(each.dataset.at)) / 1e6)} ago`;
    if (each.textContent !== text) each.textContent = text;
  }
}, MILLISECOND_TICK);

export const count = (number, one, many) => `${integer(number)} ${number === 1 ? one : many || `${one}s`}`;
export const integer = (number) =>
  typeof number === "number" && Number.isFinite(number) ? Math.round(number).toLocaleString("en-US") : "unknown";

export const bytes = (number) => {
  if (typeof number !== "number") return "unknown";
  for (const [size, unit] of [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "kB"],
  ]) {
    if (Math.abs(number) >= size) return `${(number / size).toPrecision(3).replace(/\.0+$/, "")} ${unit}`;
  }
  return `${Math.round(number)} B`;
};

// A value with its unit, as `fleet explain` writes it; - is unknown.
export const amount = (value, unit) => {
  if (typeof value !== "number" || !Number.isFinite(value)) return "-";
  if (unit === "ratio") return `${(value * 100).toFixed(Math.abs(value) < 0.1 && value !== 0 ? 1 : 0)} %`;
  if (unit === "B/s" || unit === "bytes per s" || unit === "bytes/s") return `${bytes(value)}/s`;
  if (unit === "B" || unit === "bytes") return bytes(value);
  const whole = Math.abs(value) >= 100 || Number.isInteger(value);
  const text = whole ? Math.round(value).toLocaleString("en-US") : value.toFixed(Math.abs(value) < 1 ? 2 : 1);
  if (!unit || ["times", "records", "partitions"].includes(unit)) return text;
  return `${text} ${unit.replace("per s", "/s")}`;
};

const SEVERITIES = { critical: ["▲", "Critical"], warning: ["◆", "Warning"], info: ["●", "For information"] };

// A severity by shape, word and colour; `null` is nothing.
export const severity = (of, state) => {
  if (state === "cleared") return el("span", { class: "sev cleared" }, el("span", { "aria-hidden": "true" }, "○ "), "Over");
  const [shape, word] = SEVERITIES[of] || [];
  return shape ? el("span", { class: `sev ${of}` }, el("span", { "aria-hidden": "true" }, `${shape} `), word) : null;
};
export const mark = (of) =>
  SEVERITIES[of]
    ? el("span", { class: `sev ${of}`, title: SEVERITIES[of][1], role: "img", "aria-label": SEVERITIES[of][1] }, SEVERITIES[of][0])
    : null;

// The states of docs/operate/http.md, in the order in which they are worth attention.
export const STATES = {
  vanished: "its last connection ended without a terminating push, or it sent nothing for three push intervals; listed for a day",
  refused: "its latest request was answered with an error other than THROTTLING_QUOTA_EXCEEDED",
  throttled: "its latest request was answered THROTTLING_QUOTA_EXCEEDED",
  late: "it has sent nothing for 1.5 push intervals plus one second",
  unsubscribed: "no subscription asks it for metrics",
  new: "it has not pushed yet, and its first push is not overdue",
  live: "its pushes arrive in time",
  ended: "its terminating push was accepted: the client has closed; listed for an hour",
};
// Of a row that counts clients by state.
export const countedStates = (counts) =>
  Object.keys(STATES)
    .filter((each) => counts?.[each])
    .map((each) => `${integer(counts[each])} ${each}`)
    .join(", ");

export const state = (of) => el("span", { class: `state ${of in STATES ? of : "other"}`, title: STATES[of] || null }, of || "unknown");

export const SIDES = {
  broker: "Kafka operators",
  client: "Application team",
  network: "Network team",
  quota: "Kafka operators (quotas)",
  unknown: "Not certain: ask the application team first",
};

const KINDS = { client: "client", instance: "instance", group: "group", node: "broker", path: "path", version: "version" };
export const subject = (row) => `${KINDS[row.subject_kind] || row.subject_kind} ${shown(row.subject, 80)}`;
