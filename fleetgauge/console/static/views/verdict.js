// One verdict as an article: what, about whom, why, what to do, its evidence.
import { encoded, el, name, sentence, shown } from "../dom.js";
import { SIDES, ago, amount, at, clock, count, severity, span, subject } from "../words.js";

export const titleOf = (row) => el("bdi", null, row.title ? shown(row.title, 200) : `${shown(row.verdict, 80)}: ${subject(row)}`);

// The list of verdicts, narrowed to this one and others of its kind and name.
export const linkOf = (row) => `#/verdicts?q=${encoded(`${row.verdict} ${row.subject}`)}`;

export const referenceOf = (row) => `${row.verdict}:${row.subject_kind}:${row.subject}`;

// Rows, best rank first, as causes with what they explain; a cause that is not among them counts as none.
export const folded = (rows) => {
  const key = (cluster, reference) => `${cluster}\u0000${reference}`;
  const byReference = new Map(rows.map((row) => [key(row.cluster_id, referenceOf(row)), row]));
  const causes = new Map();
  for (const row of rows) {
    let root = row;
    for (const seen = new Set([row]); root.caused_by; seen.add(root)) {
      const cause = byReference.get(key(root.cluster_id, root.caused_by));
      if (!cause || seen.has(cause)) break;
      root = cause;
    }
    if (!causes.has(root)) causes.set(root, []);
    if (root !== row) causes.get(root).push(row);
  }
  return rows.filter((row) => causes.has(row)).map((row) => ({ row, explains: causes.get(row) }));
};

// Where the clients that it concerns are listed, or the one that it is about.
const clientsOf = (row) => {
  if (row.subject_kind === "instance") return `#/client/${encoded(row.subject)}`;
  if (row.instances?.length === 1 && row.instance_count === 1) return `#/client/${encoded(row.instances[0])}`;
  if (row.subject_kind === "group") return `#/fleet?group=${encoded(row.subject)}`;
  if (row.subject_kind === "node") return `#/fleet?broker=${encoded(row.subject)}`;
  if (row.subject_kind === "version") return `#/fleet?software=${encoded(row.subject)}`;
  return row.client_id ? `#/fleet?q=${encoded(row.client_id)}` : `#/fleet?verdict=${encoded(row.verdict)}`;
};

const lasts = (row) => {
  if (row.state === "cleared") return ["from ", at(row.since), " to ", at(row.cleared_at)];
  return ["since ", at(row.since), ` (${span((row.last_seen_at - row.since) / 1e6)})`];
};

const evidence = (rows) =>
  el(
    "table",
    null,
    el(
      "thead",
      null,
      el(
        "tr",
        null,
        el("th", { scope: "col" }, "Window (UTC)"),
        el("th", { scope: "col", class: "num" }, "Observed"),
        el("th", { scope: "col", class: "num" }, "Expected"),
        el("th", { scope: "col" }, "Metric"),
      ),
    ),
    el(
      "tbody",
      null,
      rows.map((each) =>
        el(
          "tr",
          null,
          el("td", null, at(each.window_start)),
          el("td", { class: "num" }, amount(each.observed, each.unit)),
          el("td", { class: "num" }, amount(each.expected, each.unit)),
          el("td", null, name(each.metric)),
        ),
      ),
    ),
  );

const explained = (rows) => {
  const kinds = {};
  for (const row of rows) kinds[row.verdict] = (kinds[row.verdict] || 0) + 1;
  const text = Object.entries(kinds)
    .map(([kind, number]) => `${number} ${shown(kind, 40)}`)
    .join(", ");
  return el(
    "details",
    null,
    el("summary", null, `Explains ${count(rows.length, "further verdict")}: ${text}`),
    el(
      "ul",
      null,
      rows.map((row) => el("li", null, titleOf(row), " ", el("span", { class: "soft" }, sentence(row.sentence || row.why)))),
    ),
  );
};

// What may come to be a verdict, in one line each.
export const suspicions = (rows) =>
  el(
    "section",
    { "aria-label": "Suspected" },
    el("h2", null, "Suspected"),
    el(
      "ul",
      null,
      rows.map((row) =>
        el(
          "li",
          null,
          titleOf(row),
          el(
            "span",
            { class: "soft" },
            ` since ${clock(row.since_us, false)}: ${span(row.lasted_s)} of the ${span(row.for_s)} required; opens at ${clock(row.opens_us, false)} UTC if it continues.`,
          ),
        ),
      ),
    ),
  );

// `level` is of its heading; `explains` are rows that it explains.
export const article = ({ row, explains = [] }, level = 2) => {
  const who = row.who ? shown(row.who, 120) : SIDES[row.side] || SIDES.unknown;
  const judged = (row.judged_by || []).join(", ");
  return el(
    "article",
    { class: `problem ${row.state === "cleared" ? "cleared" : row.severity}` },
    el(`h${level}`, null, severity(row.severity, row.state), " ", titleOf(row)),
    el(
      "p",
      { class: "soft" },
      lasts(row),
      " · ",
      el("code", null, shown(row.verdict, 80)),
      row.cluster_id ? [", cluster ", name(row.cluster_id, 40)] : null,
      " · ",
      el("a", { href: clientsOf(row) }, count(row.instance_count ?? row.instances?.length ?? 0, "instance")),
      row.principal ? [", ", name(row.principal)] : null,
    ),
    el("p", { class: "why" }, sentence(row.sentence || row.why)),
    row.state !== "cleared" && row.action ? el("p", { class: "do" }, el("b", null, who, ": "), sentence(row.action)) : null,
    row.caused_by ? el("p", { class: "soft" }, "Caused by ", name(row.caused_by, 160)) : null,
    explains.length ? explained(explains) : null,
    row.evidence?.length
      ? el(
          "details",
          null,
          el("summary", null, "Evidence: observed and expected values"),
          el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Evidence" }, evidence(row.evidence)),
          el(
            "p",
            { class: "soft" },
            `Confidence ${Math.round((row.confidence ?? 0) * 100)} %, score ${(row.score ?? 0).toFixed(1)} of 100${judged ? `, judged by ${shown(judged, 80)}` : ""}; last seen `,
            ago(row.last_seen_at),
            ".",
          ),
        )
      : null,
  );
};
