// The stream of overviews, and what the reader must know of it: connected, lost, paused, or of old data.
import { get } from "./api.js";
import { clock, serverNow, setServerTime, span } from "./words.js";

const QUIET_MS = 30_000; // the server may have nothing to say for so long; then it is asked whether it is there
const AGAIN_MS = 5_000;
const OLD_S = 150; // of a log that is read every 2 s
const HIDDEN_MS = 10_000; // for how long a page that is not seen keeps its stream: browsers open six connections to a server

let source = null;
let paused = false;
let lostAt = null;
let reason = "";
let heardAt = Date.now();
let overview = null;
let isGaining = false; // the log is read faster than time passes
let listeners = [];
let changed = () => {};

export const latest = () => overview;
export const isPaused = () => paused;

const take = (found) => {
  heardAt = Date.now();
  lostAt = null;
  setServerTime(found.now);
  if (!paused) {
    isGaining = overview !== null && found.read_up_to - overview.read_up_to > 2 * (found.now - overview.now);
    overview = found;
    for (const each of listeners) each(found);
  }
  changed();
};

const lost = (why) => {
  lostAt ??= Date.now();
  reason = why;
  changed();
};

const ask = async () => {
  try {
    take(await get("api/overview", AbortSignal.timeout(10_000)));
  } catch (error) {
    lost(error.message);
  }
};

const disconnect = () => {
  source?.close();
  source = null;
};

const connect = () => {
  disconnect();
  if (document.hidden) return;
  const own = (source = new EventSource("api/events"));
  source.addEventListener("overview", (event) => take(JSON.parse(event.data)));
  source.addEventListener("open", () => {
    heardAt = Date.now();
    lostAt = null;
    changed();
  });
  source.addEventListener("error", async () => {
    if (own.readyState !== EventSource.CLOSED) return lost("The server does not answer."); // it tries again by itself
    await ask(); // it answered, but with no stream: it has just started, or too many pages are open
    setTimeout(() => source === own && connect(), AGAIN_MS);
  });
};

const watch = () => {
  if (!document.hidden && Date.now() - heardAt >= QUIET_MS) ask();
};

export const start = (onChange) => {
  changed = onChange;
  connect();
  setInterval(watch, 5_000);
  let leaving = null;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(leaving);
    if (document.hidden) leaving = setTimeout(disconnect, HIDDEN_MS);
    else if (!source) connect();
  });
  setInterval(() => changed(), 1_000);
};

// Calls `listener` with each overview that comes, and at once where there is one; returns how to end that.
export const listen = (listener) => {
  listeners.push(listener);
  if (overview) listener(overview);
  return () => {
    listeners = listeners.filter((each) => each !== listener);
  };
};

// Calls `listener` every few seconds unless the page is paused: for figures that change while the fleet does not.
export const tick = (listener) => {
  const timer = setInterval(() => !paused && listener(), AGAIN_MS);
  return () => clearInterval(timer);
};

export const pause = (wanted) => {
  paused = wanted;
  if (!wanted) ask();
  changed();
};

// How it stands: a short text for the head of the page, and a sentence where the figures cannot be relied on.
export const condition = () => {
  if (lostAt !== null) {
    const what = overview ? ` The page shows the state of ${clock(overview.now)} UTC.` : "";
    const text = reason.charAt(0).toUpperCase() + reason.slice(1) + (/[.!?]$/.test(reason) ? "" : ".");
    return {
      kind: "lost",
      short: overview ? "Connection lost" : "No data",
      warning: `${text}${what} Retrying every few seconds since ${clock(lostAt * 1000)} UTC.`,
    };
  }
  if (!overview) return { kind: "waiting", short: "Connecting", warning: null };
  if (paused) return { kind: "paused", short: `Paused at ${clock(overview.now)} UTC`, warning: null };
  const old_s = overview.read_up_to ? (serverNow() - overview.read_up_to) / 1e6 : 0;
  if (old_s > OLD_S) {
    return {
      kind: "stale",
      short: `Data of ${clock(overview.read_up_to)} UTC`,
      warning: `The data is old: the push log was read up to ${clock(overview.read_up_to)} UTC, ${span(old_s)} ago. States and verdicts are as of then.${isGaining ? " Reading continues." : ""}`,
    };
  }
  return { kind: "live", short: `Live, ${clock(overview.now)} UTC`, warning: null };
};
