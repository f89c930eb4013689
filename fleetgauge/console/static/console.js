// The page: its views by address, the state of the connection, and who may change what.
import { get, loadSession } from "./api.js";
import { el, replace, shown } from "./dom.js";
import { showKeys, startKeys } from "./keys.js";
import * as live from "./live.js";
import { drawRole } from "./operate.js";
import * as brokers from "./views/brokers.js";
import * as client from "./views/client.js";
import * as exporters from "./views/exporters.js";
import * as fleet from "./views/fleet.js";
import * as groups from "./views/groups.js";
import * as quotas from "./views/quotas.js";
import * as subscriptions from "./views/subscriptions.js";
import * as traffic from "./views/traffic.js";
import * as verdicts from "./views/verdicts.js";

const VIEWS = { fleet, client, groups, brokers, verdicts, exporters, subscriptions, quotas, traffic };

const main = document.getElementById("main");
let current = { name: null, id: null, view: {} };

const decoded = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

// `#/client/<id>` and `#/fleet?state=late` as view, id and query; anything else is the fleet.
const parsed = () => {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [name, id] = path.split(/\/(.*)/s);
  const known = Object.hasOwn(VIEWS, name) && (name !== "client" || id);
  return {
    name: known ? name : "fleet",
    id: known && id ? decoded(id) : null,
    query: Object.fromEntries(new URLSearchParams(query || "")),
  };
};

const heading = (text) => {
  document.title = `${text} · Fleetgauge`;
};

// Another query of the same view: in the address, without a new entry in the history for each key that is typed.
const go = (query) => {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const text = given.toString();
  history.replaceState(null, "", `#/${current.name}${text ? `?${text}` : ""}`);
  current.view.navigate(parsed().query, true);
};

// Views of a node alone: where nothing feeds them, as beside an export, the head does not have them.
const unfed = new Set(["quotas", "traffic"]);

const drawViews = () => {
  const { name } = current;
  for (const link of document.querySelectorAll("#views a")) {
    const isCurrent = link.hash === `#/${name === "client" ? "fleet" : name}`;
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    link.parentElement.hidden = !isCurrent && unfed.has(link.hash.slice(2));
  }
};

const show = (isFirst = false) => {
  const asked = parsed();
  if (asked.name === current.name && asked.id === current.id && current.view.navigate) {
    current.view.navigate(asked.query);
    return;
  }
  sessionStorage.setItem("from-fleet", current.name === "fleet" ? "yes" : "");
  current.view.close?.();
  replace(main);
  heading(VIEWS[asked.name].title);
  current = { name: asked.name, id: asked.id, view: {} };
  current.view = VIEWS[asked.name].open(main, { id: asked.id, query: asked.query, go, heading });
  drawViews();
  if (!isFirst) {
    scrollTo(0, 0);
    main.querySelector("h1")?.focus({ preventScroll: true });
  }
};

const drawCondition = () => {
  const { kind, short, warning } = live.condition();
  const box = document.getElementById("live");
  if (box.dataset.kind !== kind) {
    box.dataset.kind = kind;
    replace(box, el("span", { class: "dot", "aria-hidden": "true" }), el("span"));
  }
  // the clock changes each second or so: it is not read out, the kind of connection is
  const text = box.lastChild;
  box.setAttribute("aria-live", kind === "live" ? "off" : "polite");
  if (text.textContent !== short) text.textContent = short;
  const lost = document.getElementById("lost");
  if (warning === null) lost.hidden = true;
  else {
    if (lost.textContent !== warning) lost.textContent = warning;
    lost.hidden = false;
  }
  main.classList.toggle("old", kind === "lost" || kind === "stale");
};

const drawSession = () => {
  const box = document.getElementById("role");
  const redraw = async () => {
    await loadSession().catch(() => {});
    drawRole(box, redraw);
    const { name } = current;
    current.view.close?.();
    current = { name: null, id: null, view: {} };
    if (name) show(true);
  };
  drawRole(box, redraw);
};

const togglePause = () => {
  const button = document.getElementById("pause");
  const wanted = !live.isPaused();
  live.pause(wanted);
  button.setAttribute("aria-pressed", String(wanted));
  button.textContent = wanted ? "Resume" : "Pause";
};

document.getElementById("pause").addEventListener("click", togglePause);
document.getElementById("help").addEventListener("click", showKeys);
startKeys({ current: () => current.view, togglePause });
addEventListener("hashchange", () => show());
live.listen((overview) => {
  const ids = overview.cluster_ids || [];
  const box = document.getElementById("cluster");
  box.textContent = ids.length === 1 ? shown(ids[0], 40) : ids.length ? `${ids.length} clusters` : "";
  box.title = shown(ids.join(", "), 400);
});
const feed = (name) => {
  unfed.delete(name);
  drawViews();
};
for (const each of unfed) {
  get(`api/${each}`).then(
    (found) => found.why_not || feed(each),
    () => feed(each), // a node that does not answer now may have it
  );
}
await loadSession().catch(() => {});
drawSession();
show(true);
live.start(drawCondition);
