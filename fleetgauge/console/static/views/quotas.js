// Quotas of the node, and how far each is used.
import { get } from "../api.js";
import { bar } from "../chart.js";
import { el, name, shown } from "../dom.js";
import { tick } from "../live.js";
import { Table, polled } from "../table.js";
import { amount, integer } from "../words.js";

export const title = "Quotas";

const UNITS = { Produce: "B/s", Fetch: "B/s", Request: "%", ControllerMutation: "per s", TelemetryByte: "B/s", TelemetryPush: "per s" };
const entityText = (entity) =>
  entity && typeof entity === "object"
    ? Object.entries(entity)
        .map(([key, value]) => `${key} ${value ?? "<default>"}`)
        .join(", ")
    : `${entity ?? ""}`;

const used = (row) => {
  if (typeof row.utilisation !== "number") return "-";
  return el("span", { class: "used" }, bar(row.utilisation, row.utilisation > 0.8 ? "high" : ""), ` ${amount(row.utilisation, "ratio")}`);
};

export const open = (main) => {
  const table = new Table({
    label: "Quotas",
    keyOf: (row) => JSON.stringify([row.entity, row.key]),
    textOf: (row) => `${entityText(row.entity)} ${row.key}`,
    empty: "No quota is in use here.",
    columns: [
      { head: "For", isHeading: true, value: (row) => entityText(row.entity), cell: (row) => name(entityText(row.entity), 120) },
      { head: "Quota", value: (row) => row.key, cell: (row) => el("code", null, shown(row.key, 60)) },
      { head: "Limit", isNumber: true, value: (row) => row.limit, cell: (row) => amount(row.limit, UNITS[row.key] || "per s") },
      { head: "Observed", isNumber: true, value: (row) => row.observed, cell: (row) => amount(row.observed, UNITS[row.key] || "per s") },
      { head: "Used", isNumber: true, value: (row) => row.utilisation, cell: used },
      {
        head: "Throttled clients",
        isNumber: true,
        wide: true,
        value: (row) => row.throttled_clients,
        cell: (row) => (typeof row.throttled_clients === "number" ? integer(row.throttled_clients) : "-"),
      },
    ],
  });
  const left = el("p", { class: "left" });
  const note = el(
    "p",
    { class: "soft" },
    "Quotas of this node's listeners, measured over Kafka's windows. At 100 % a client is at its limit; beyond it, its connection is muted or its pushes are throttled.",
  );
  main.append(el("h1", { tabindex: "-1" }, "Quotas"), note, table.element, left);
  return polled({
    main,
    listen: tick,
    load: (signal) => get("api/quotas", signal),
    draw: (found) => {
      if (found.why_not) table.empty = found.why_not;
      left.textContent = found.left_out ? `Left out: ${integer(found.left_out)} further quotas, farther from their limits.` : "";
      table.show(found.quotas);
    },
  });
};
