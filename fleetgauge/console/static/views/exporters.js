// Exporters: how far behind each is, and the pushes that its destination rejected.
import { get } from "../api.js";
import { encoded, el, name, say, shown } from "../dom.js";
import { tick } from "../live.js";
import { change, confirm, mayOperate, whyNot } from "../operate.js";
import { keyed, polled } from "../table.js";
import { ago, amount, at, count, integer, span } from "../words.js";

export const title = "Exporters";

const fact = (label, ...value) => el("div", null, el("dt", null, label), el("dd", null, value));

const lastError = (error) => {
  if (!error) return "none known";
  return [name(error.message, 300), error.at ? [", ", at(error.at)] : null, error.over_at ? [", over since ", at(error.over_at)] : null];
};

const letters = (exporter, again) => {
  const dead = exporter.dead_letters;
  if (!dead) return "unknown";
  if (!dead.count) return "none";
  const reasons = Object.entries(dead.reasons || {}).map(([reason, number]) => el("li", null, `${integer(number)} `, name(reason, 160)));
  const pushes = count(dead.count, "rejected push", "rejected pushes");
  const path = `api/exporters/${encoded(exporter.name)}/dead-letters`;
  const done = (text) => {
    say(text);
    again();
  };
  const replay = () =>
    confirm({
      heading: "Replay dead letters?",
      text: [`${pushes} of exporter `, name(exporter.name), " will be sent to its destination again. Pushes that it rejects again stay here."],
      verb: `Replay ${integer(dead.count)}`,
      isDanger: false,
      act: () => change("POST", `${path}/replay`, {}).then(() => done("The dead letters are replayed.")),
    });
  const drop = () =>
    confirm({
      heading: "Drop dead letters?",
      text: [
        `${pushes} of exporter `,
        name(exporter.name),
        " will be deleted permanently: they cannot be delivered afterwards.",
      ],
      verb: `Drop ${integer(dead.count)}`,
      act: () => change("POST", `${path}/drop`, {}).then(() => done("The dead letters are dropped.")),
    });
  return [
    el("b", null, pushes),
    dead.oldest_at ? [", the oldest from ", ago(dead.oldest_at)] : null,
    reasons.length ? el("ul", null, reasons) : null,
    mayOperate()
      ? el(
          "p",
          { class: "buttons" },
          el("button", { type: "button", click: replay }, "Replay"),
          el("button", { type: "button", class: "danger", click: drop }, "Drop"),
        )
      : whyNot("replay or drop dead letters"),
  ];
};

const card = (exporter, again) =>
  el(
    "article",
    { class: `problem ${exporter.dead_letters?.count || (exporter.last_error && !exporter.last_error.over_at) ? "warning" : "cleared"}` },
    el("h2", null, name(exporter.name), " ", el("span", { class: "soft" }, shown(exporter.type, 40))),
    el(
      "dl",
      { class: "facts" },
      fact("State", shown(exporter.state ?? "unknown", 80)),
      fact(
        "Behind by",
        exporter.lag_pushes === null || exporter.lag_pushes === undefined
          ? "unknown"
          : `${count(exporter.lag_pushes, "push", "pushes")}${exporter.lag_s ? `, ${span(exporter.lag_s)}` : ""}`,
      ),
      fact("Rate", typeof exporter.rate === "number" ? amount(exporter.rate, "pushes/s") : "unknown"),
      fact("Last error", lastError(exporter.last_error)),
      fact("Dead letters", letters(exporter, again)),
    ),
  );

export const open = (main) => {
  const list = el("div", { class: "cards" });
  const none = el("p", { class: "soft" });
  main.append(
    el("h1", { tabindex: "-1" }, "Exporters"),
    el("p", { class: "soft" }, "Each exporter delivers every push of the log to one destination, with its own cursor."),
    none,
  );
  const polling = polled({
    main,
    listen: tick,
    load: (signal) => get("api/exporters", signal),
    draw: (found) => {
      none.textContent = found.exporters.length ? "" : found.why_not || "This process has no exporters.";
      keyed(
        list,
        found.exporters.map((each) => ({ ...each, may: mayOperate() })),
        (each) => each.name,
        (each) => card(each, () => polling.now()),
      );
    },
  });
  main.append(list);
  return polling;
};
