// Kafka nodes, as their clients measure them.
import { get } from "../api.js";
import { spark } from "../chart.js";
import { encoded, el, name } from "../dom.js";
import { listen } from "../live.js";
import { Table, polled } from "../table.js";
import { amount, integer } from "../words.js";
import { verdictCell, verdictRank } from "./groups.js";

export const title = "Brokers";

export const open = (main) => {
  const table = new Table({
    label: "Brokers",
    keyOf: (row) => JSON.stringify([row.cluster_id, row.node_id]),
    textOf: (row) => `broker ${row.node_id} ${row.cluster_id} ${(row.verdicts || []).join(" ")}`,
    empty:
      "No client has sent latency by broker yet: a subscription has to include org.apache.kafka.producer.node. or consumer.node.",
    columns: [
      {
        head: "Broker",
        isHeading: true,
        value: (row) => row.node_id,
        cell: (row) => el("a", { href: `#/fleet?broker=${encoded(row.node_id)}` }, `broker ${row.node_id}`),
      },
      { head: "Verdicts", value: verdictRank, cell: verdictCell },
      { head: "Clients", isNumber: true, value: (row) => row.clients, cell: (row) => integer(row.clients) },
      {
        head: "Latency, mean",
        isNumber: true,
        value: (row) => row.request_latency_avg_ms,
        cell: (row) => amount(row.request_latency_avg_ms, "ms"),
      },
      { head: "95 % of clients", isNumber: true, value: (row) => row.p95_ms, cell: (row) => amount(row.p95_ms, "ms") },
      { head: "Last hour", wide: true, value: () => null, cell: (row) => spark(row.history?.values) || el("span", { class: "soft" }, "-") },
      {
        head: "Throttled producers",
        isNumber: true,
        value: (row) => row.produce_throttled_clients,
        cell: (row) => amount(row.produce_throttled_clients, "times"),
      },
      {
        head: "Throttled consumers",
        isNumber: true,
        value: (row) => row.fetch_throttled_clients,
        cell: (row) => amount(row.fetch_throttled_clients, "times"),
      },
      { head: "Cluster", wide: true, value: (row) => row.cluster_id, cell: (row) => name(row.cluster_id, 30) },
    ],
  });
  main.append(
    el("h1", { tabindex: "-1" }, "Brokers"),
    el(
      "p",
      { class: "soft" },
      "Latency measured by the clients, including the network. For consumers only the part of a fetch beyond the longest wait for records (500 ms; franz-go 5 s) counts, and only while they call poll(). If three or more producers measure a broker, only they count. - means unknown.",
    ),
    table.element,
  );
  return polled({ main, listen, load: (signal) => get("api/brokers", signal), draw: (found) => table.show(found.brokers, found.why_not) });
};
