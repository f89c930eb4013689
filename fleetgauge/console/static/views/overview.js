// The fleet in short: what is wrong, how large it is, and its last hour. The head of the fleet's view.
import { encoded, el, name, replace, sentence } from "../dom.js";
import { bar, chart } from "../chart.js";
import { keyed } from "../table.js";
import { STATES, bytes, clock, count, integer, severity } from "../words.js";
import { linkOf, titleOf } from "./verdict.js";

const MOST_SOFTWARE = 4;
const MOST_URGENT = 3;

const isYoung = (verdicts) => Boolean(verdicts.first_verdicts);
const judgingSince = (verdicts) =>
  `Judging since ${clock(verdicts.judged_from, false)}; first verdicts from ${clock(verdicts.first_verdicts, false)} UTC`;

// What stands first: open verdicts; else what else is amiss, and whether anything is judged at all.
const lead = ({ verdicts, clients }) => {
  const { critical = 0, warning = 0, info = 0 } = verdicts;
  if (critical || warning) {
    const parts = [critical ? `${integer(critical)} critical` : null, warning ? `${integer(warning)} warning` : null].filter(Boolean);
    return [critical ? "critical" : "warning", `${parts.join(" and ")} ${critical + warning === 1 ? "verdict is" : "verdicts are"} open`];
  }
  if (!clients.total) return ["", "No clients yet"];
  const { vanished = 0, refused = 0 } = clients.states || {};
  const away = [
    vanished ? `${count(vanished, "client has", "clients have")} vanished` : null,
    refused ? `${count(refused, "client is", "clients are")} refused` : null,
  ].filter(Boolean);
  const found = info ? `${count(info, "verdict is", "verdicts are")} open for information` : "No verdict is open";
  const first = verdicts.not_judged ? "Not judged" : isYoung(verdicts) ? judgingSince(verdicts) : found;
  if (verdicts.suspected) away.unshift(`${integer(verdicts.suspected)} suspected`);
  const isFine = !away.length && !verdicts.not_judged && !isYoung(verdicts);
  return [isFine ? "fine" : "", away.length ? `${first}; ${away.join(" and ")}` : first];
};

const tile = (label, value, detail, href) =>
  el(
    "div",
    { class: "tile" },
    el("dt", null, label),
    el("dd", null, href ? el("a", { href }, value) : value),
    detail ? el("dd", { class: "soft" }, detail) : null,
  );

const stateBar = (states, total) => {
  const known = Object.keys(STATES)
    .filter((each) => states[each])
    .sort((one, other) => states[other] - states[one]);
  return known.map((each) => `${integer(states[each])} ${each}`).join(", ") || (total ? "their states are unknown" : "none yet");
};

const facts = (overview) => {
  const { clients, verdicts, history = {} } = overview;
  const live = history.live || [];
  return el(
    "dl",
    { class: "tiles" },
    tile("Client instances", integer(clients.total), stateBar(clients.states || {}, clients.total)),
    tile(
      "Pushes",
      `${(overview.pushes_per_s ?? 0).toFixed(overview.pushes_per_s >= 100 ? 0 : 1)} /s`,
      `${bytes(overview.bytes_per_s ?? 0)}/s of payload${live.length ? "" : ", no history yet"}`,
    ),
    tile(
      "Open verdicts",
      verdicts.not_judged ? "not judged" : integer((verdicts.critical || 0) + (verdicts.warning || 0) + (verdicts.info || 0)),
      verdicts.not_judged
        ? null
        : `${integer(verdicts.critical || 0)} critical, ${integer(verdicts.warning || 0)} warning, ${integer(verdicts.info || 0)} info, ${integer(verdicts.suspected || 0)} suspected`,
      "#/verdicts",
    ),
    tile("Consumer groups", integer(overview.groups), null, "#/groups"),
    tile("Brokers", integer(overview.brokers), null, "#/brokers"),
  );
};

const brief = (rows, more, notJudged) =>
  el(
    "div",
    null,
    el("h2", null, "Most urgent"),
    rows.length
      ? el(
          "ol",
          { class: "brief" },
          rows.map((row) =>
            el(
              "li",
              null,
              el("p", null, severity(row.severity), " ", el("a", { href: linkOf(row) }, titleOf(row))),
              el("p", { class: "soft" }, sentence(row.sentence || row.why)),
            ),
          ),
        )
      : el("p", { class: "soft" }, notJudged ? sentence(notJudged) : "Nothing. Metrics that a client's library does not send are not judged."),
    more > 0 ? el("p", null, el("a", { href: "#/verdicts" }, count(more, "more open verdict"))) : null,
  );

const software = (rows) => {
  const most = Math.max(1, ...rows.map((row) => row.clients));
  return el(
    "div",
    null,
    el("h2", null, "Libraries and versions"),
    el(
      "ul",
      { class: "bars" },
      rows.slice(0, MOST_SOFTWARE).map((row) => {
        const text = `${row.name ?? "unknown"}/${row.version ?? "unknown"}`;
        return el(
          "li",
          null,
          el("a", { href: row.name ? `#/fleet?software=${encoded(text)}` : null }, name(text, 34)),
          bar(row.clients / most),
          el("span", { class: "num" }, integer(row.clients)),
        );
      }),
    ),
    rows.length > MOST_SOFTWARE
      ? el("p", { class: "left" }, `${count(rows.length - MOST_SOFTWARE, "further version")}: group the list by version.`)
      : null,
  );
};

const notices = (overview) => {
  const found = [...(overview.notices || [])];
  if (typeof overview.measures === "string") found.push(overview.measures);
  if (overview.skipped_payloads > 0)
    found.push(
      `${count(overview.skipped_payloads, "payload was", "payloads were")} not decoded, because of the CPU limit (console.decode.cores): measures and live verdicts lack them; clients and their states are complete.`,
    );
  return found.length
    ? el(
        "ul",
        { class: "notices" },
        found.map((text) => el("li", null, sentence(text))),
      )
    : el("div");
};

const history = (title, times, values) => chart({ title, unit: "", times, values, isSmall: true });

// Draws an overview; `isFolded` leaves out all but its figures, for a list that begins with a filter. What has not
// changed stays, with its focus.
export const drawOverview = (parent, overview, isFolded) => {
  if (!parent.figures) {
    parent.figures = el("div");
    parent.summary = el("div", { class: "summary" });
    replace(parent, parent.figures, parent.summary);
  }
  const { clients, verdicts, history: hour = {}, measures, skipped_payloads } = overview;
  const { times = [], pushes = [], live = [] } = hour;
  const whole = times.length && times[times.length - 1] + 60e6 > overview.now ? -1 : times.length; // the last minute lasts yet
  const top = (verdicts.top || []).filter((row) => !row.caused_by).slice(0, MOST_URGENT);
  const open = (verdicts.critical || 0) + (verdicts.warning || 0) + (verdicts.info || 0);
  const draw = (box, parts) =>
    keyed(
      box,
      parts,
      (part) => part.of,
      (part) => part.build(),
    );
  const given = (of, data, build) => ({ of, data, build });
  draw(parent.figures, [
    given("lead", lead(overview), () => {
      const [kind, text] = lead(overview);
      return el("p", { class: `lead ${kind}` }, text, ".");
    }),
    given("notices", [overview.notices, measures, skipped_payloads], () => notices(overview)),
    given("facts", [clients, verdicts, overview.pushes_per_s, overview.bytes_per_s, overview.groups, overview.brokers], () =>
      facts(overview),
    ),
  ]);
  parent.summary.hidden = isFolded;
  if (isFolded) return;
  draw(parent.summary, [
    given("brief", [top, open, verdicts.not_judged], () => brief(top, open - top.length, verdicts.not_judged)),
    given("live", [times, live], () => history("Clients that push", times, live)),
    given("pushes", [times, pushes], () => history("Pushes a minute", times.slice(0, whole), pushes.slice(0, whole))),
    given("software", overview.software, () => software(overview.software || [])),
  ]);
};
