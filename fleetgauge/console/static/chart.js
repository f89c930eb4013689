// Line charts as SVG, drawn as those of `fleet report` are (fleet/html/chart.py): same scales and classes.
import { el, shown, svg } from "./dom.js";
import { amount, bytes, clock, moment } from "./words.js";

const LARGE = { width: 520, height: 190, left: 70, right: 508, top: 12, bottom: 160 };
const SMALL = { width: 300, height: 150, left: 40, right: 292, top: 10, bottom: 122 };
const STEPS_S = [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const isKnown = (value) => typeof value === "number" && Number.isFinite(value);

// The least and greatest value of the axis, and where its lines are: about four, at round numbers.
const scale = (values, unit) => {
  const low = Math.min(0, ...values);
  let high = Math.max(0, ...values);
  if (unit === "ratio" && high > 0.4 && high <= 1) high = 1;
  if (high <= low) high = low + 1;
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const first = Math.floor(low / step + 1e-9),
    last = Math.ceil(high / step - 1e-9);
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
  return { low: first * step, high: last * step, ticks };
};

const label = (value, unit) => {
  if (unit === "ratio") return `${Number((value * 100).toPrecision(3))} %`;
  if (unit === "B/s" || unit === "B") return bytes(value).replace("unknown", "");
  for (const [size, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${letter}`;
  }
  return `${Number(value.toPrecision(3))}${unit === "ms" ? " ms" : ""}`;
};

const DOT = "m-1.5 0a1.5 1.5 0 1 0 3 0a1.5 1.5 0 1 0 -3 0";

// Unknown values interrupt the line, and one alone is a dot.
const path = (places, values, y) =>
  values
    .map((value, at) => {
      if (!isKnown(value)) return "";
      const isDown = isKnown(values[at - 1]);
      return `${isDown ? "L" : "M"}${places[at]} ${y(value).toFixed(1)}${isDown || isKnown(values[at + 1]) ? "" : DOT}`;
    })
    .join("");

const timeTicks = (begin_us, end_us) => {
  const step_us = (STEPS_S.find((step) => (end_us - begin_us) / 1e6 / step <= 5) || 86400) * 1e6;
  const found = [];
  for (let at = Math.ceil(begin_us / step_us) * step_us; at <= end_us; at += step_us) found.push(at);
  return found;
};

const described = (title, times, values, unit) => {
  const known = values.filter(isKnown);
  const text = `${title} from ${moment(times[0])} to ${moment(times[times.length - 1])} UTC`;
  if (!known.length) return `${text}: no data.`;
  const now = known[known.length - 1];
  return `${text}: between ${amount(Math.min(...known), unit)} and ${amount(Math.max(...known), unit)}, last ${amount(now, unit)}.`;
};

const legend = (kind, text) =>
  el("li", null, svg("svg", { viewBox: "0 0 28 10", "aria-hidden": "true" }, svg("path", { class: `line ${kind}`, d: "M1 5H27" })), text);

const LEAST_POINTS = 10;

// Without the time before anything was known, as after a start.
const trimmed = (times, values, peers) => {
  const known = times.findIndex((_, at) => isKnown(values[at]) || isKnown(peers[at]));
  const from = Math.max(0, Math.min(known, times.length - LEAST_POINTS));
  return [times.slice(from), values.slice(from), peers.slice(from)];
};

// A figure over time. `plotted`: title, of (whose), unit, times [us], values and peers (null is unknown), isSmall.
export const chart = ({ title, of, unit, isSmall = false, ...all }) => {
  const box = isSmall ? SMALL : LARGE;
  const [times, values, peers] = trimmed(all.times, all.values, all.peers || []);
  const caption = el("figcaption", null, el("b", null, title), of ? el("span", { class: "soft" }, " ", shown(of, 80)) : null);
  if (!times.length) return el("figure", { class: "plot" }, caption, el("p", { class: "soft" }, "No data yet."));
  const begin = times[0],
    end = Math.max(times[times.length - 1], begin + 60e6);
  const { low, high, ticks } = scale([...values, ...peers].filter(isKnown), unit);
  const x = (at) => Number((box.left + ((at - begin) / (end - begin)) * (box.right - box.left)).toFixed(1));
  const y = (value) => box.bottom - ((value - low) / (high - low)) * (box.bottom - box.top);
  const places = times.map(x);
  const hasPeers = peers.some(isKnown);
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${box.width} ${box.height}`, role: "img", "aria-label": described(title, times, values, unit) },
    ticks.map((tick) => [
      svg("path", { class: "grid", d: `M${box.left} ${y(tick).toFixed(1)}H${box.right}` }),
      svg("text", { class: "yl", x: box.left - 6, y: (y(tick) + 4).toFixed(1) }, label(tick, unit)),
    ]),
    timeTicks(begin, end).map((at) => [
      svg("path", { class: "tick", d: `M${x(at)} ${box.bottom}v4` }),
      svg("text", { class: x(at) > box.right - 12 ? "xl last" : "xl", x: x(at), y: box.bottom + 18 }, clock(at, false)),
    ]),
    hasPeers ? svg("path", { class: "line peers", d: path(places, peers, y) }) : null,
    svg("path", { class: "line observed", d: path(places, values, y) }),
  );
  const last = values.filter(isKnown).pop();
  return el(
    "figure",
    { class: "plot" },
    caption,
    drawing,
    el(
      "ul",
      { class: "keys" },
      legend("observed", `last ${amount(last, unit)}`),
      hasPeers ? legend("peers", `peers ${amount(peers.filter(isKnown).pop(), unit)}`) : null,
    ),
  );
};

// A small plot from 0 to the largest value, for a cell of a table.
export const spark = (values) => {
  const known = (values || []).filter(isKnown);
  if (known.length < 2) return null;
  const top = Math.max(...known, 1e-9);
  const places = values.map((_, at) => Number((2 + (at * 116) / (values.length - 1)).toFixed(1)));
  const y = (value) => 20 - (Math.max(value, 0) / top) * 18;
  return svg(
    "svg",
    { class: "spark", viewBox: "0 0 120 22", "aria-hidden": "true" },
    svg("path", { class: "line observed", d: path(places, values, y) }),
  );
};

// A share as a bar.
export const bar = (share, kind = "") =>
  svg(
    "svg",
    { class: "share", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "rest", width: 100, height: 10 }),
    svg("rect", { class: `bar ${kind}`, width: Math.max(0, Math.min(100, share * 100)).toFixed(1), height: 10 }),
  );
