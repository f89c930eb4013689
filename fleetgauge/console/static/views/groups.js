// Consumer groups, one line each.
import { get } from "../api.js";
import { encoded, el, name, shown } from "../dom.js";
import { listen } from "../live.js";
import { Table, polled } from "../table.js";
import { amount, countedStates, integer, mark } from "../words.js";

export const title = "Groups";

const rank = { info: 1, warning: 2, critical: 3 };
export const verdictCell = (row) =>
  row.verdicts?.length
    ? [
        mark(row.severity),
        " ",
        el("a", { href: `#/verdicts?q=${encoded(row.group_id ?? row.verdicts[0])}` }, shown([...new Set(row.verdicts)].join(", "), 80)),
      ]
    : el("span", { class: "soft" }, "-");
export const verdictRank = (row) => rank[row.severity] ?? 0;

export const open = (main) => {
  const table = new Table({
    label: "Consumer groups",
    keyOf: (row) => JSON.stringify([row.cluster_id, row.group_id]),
    textOf: (row) => `${row.group_id} ${row.cluster_id} ${(row.verdicts || []).join(" ")}`,
    empty: "No consumer groups yet: consumers with a group.id send it in their pushes.",
    columns: [
      {
        head: "Group",
        isHeading: true,
        value: (row) => row.group_id,
        cell: (row) => el("a", { href: `#/fleet?group=${encoded(row.group_id)}` }, name(row.group_id)),
      },
      { head: "Verdicts", value: verdictRank, cell: verdictCell },
      { head: "Members", isNumber: true, value: (row) => row.members, cell: (row) => integer(row.members) },
      {
        head: "States",
        wide: true,
        value: (row) => row.states?.vanished || 0,
        cell: (row) => countedStates(row.states),
      },
      { head: "Lag", isNumber: true, value: (row) => row.lag_records, cell: (row) => amount(row.lag_records, "records") },
      { head: "Rebalances", isNumber: true, value: (row) => row.rebalances, cell: (row) => amount(row.rebalances, "times") },
      { head: "Idle in poll()", isNumber: true, value: (row) => row.poll_idle_ratio, cell: (row) => amount(row.poll_idle_ratio, "ratio") },
      { head: "Cluster", wide: true, value: (row) => row.cluster_id, cell: (row) => name(row.cluster_id, 30) },
    ],
  });
  main.append(
    el("h1", { tabindex: "-1" }, "Consumer groups"),
    el(
      "p",
      { class: "soft" },
      "From the telemetry of their members: members that push, and figures of the last minutes. - means unknown: no member sends the figure.",
    ),
    table.element,
  );
  return polled({ main, listen, load: (signal) => get("api/groups", signal), draw: (found) => table.show(found.groups, found.why_not) });
};
