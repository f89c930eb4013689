// What passes a gateway: requests, bytes, times and errors by client and API.
import { get } from "../api.js";
import { encoded, el, name, shown } from "../dom.js";
import { tick } from "../live.js";
import { Table, polled } from "../table.js";
import { amount, bytes, count, integer } from "../words.js";

export const title = "Traffic";

const meanOf = (row) => (row.broker_ms ? row.broker_ms / row.requests : null); // null: the gateway answers itself
const errorsOf = (row) => Object.entries(row.errors || {}).filter(([code]) => code !== "NONE");
const errorCount = (row) => errorsOf(row).reduce((sum, [, times]) => sum + times, 0);
const rate = (head, key, unit) => ({
  head,
  isNumber: true,
  value: (row) => row.per_s?.[key],
  cell: (row) => amount(row.per_s?.[key], unit),
});

export const open = (main, { query }) => {
  const table = new Table({
    label: "Traffic by client and API",
    keyOf: (row) => JSON.stringify([row.principal, row.client_id, row.api]),
    textOf: (row) => `${row.client_id} ${row.principal} ${row.api} ${Object.keys(row.errors || {}).join(" ")}`,
    empty: "No traffic yet.",
    columns: [
      {
        head: "Client id",
        isHeading: true,
        value: (row) => row.client_id,
        cell: (row) => el("a", { href: `#/fleet?q=${encoded(row.client_id)}` }, name(row.client_id, 50)),
      },
      { head: "Team", value: (row) => row.principal, cell: (row) => name(row.principal, 40) },
      { head: "API", value: (row) => row.api, cell: (row) => el("code", null, shown(row.api, 40)) },
      rate("Requests", "requests", "per s"),
      rate("Sent", "request_bytes", "B/s"),
      rate("Received", "response_bytes", "B/s"),
      { head: "Broker, mean", isNumber: true, value: meanOf, cell: (row) => amount(meanOf(row), "ms") },
      {
        head: "Throttled",
        isNumber: true,
        value: (row) => row.throttled,
        cell: (row) => (row.throttled ? `${integer(row.throttled)}, ${amount(row.throttle_ms / 1000, "s")}` : "0"),
      },
      {
        head: "Errors",
        isNumber: true,
        value: errorCount,
        cell: (row) => {
          const errors = errorsOf(row);
          if (!errors.length) return "0";
          const text = errors.map(([code, times]) => `${code} ${integer(times)}`).join(", ");
          return el("span", { title: shown(text, 400) }, integer(errorCount(row)));
        },
      },
      {
        head: "Since the start",
        isNumber: true,
        wide: true,
        value: (row) => row.request_bytes + row.response_bytes,
        cell: (row) => `${count(row.requests, "request")}, ${bytes(row.request_bytes + row.response_bytes)}`,
      },
    ],
  });
  table.filter.value = query.q || "";
  const note = el("p", { class: "soft" });
  const left = el("p", { class: "left" });
  main.append(el("h1", { tabindex: "-1" }, "Traffic"), note, table.element, left);
  return polled({
    main,
    listen: tick,
    load: (signal) => get("api/traffic", signal),
    draw: (found) => {
      if (found.why_not) table.empty = found.why_not;
      else {
        const throttled = Object.entries(found.throttled).filter(([, times]) => times);
        note.textContent =
          `Requests through this gateway to ${shown(found.broker, 120)}, most bytes first; rates over the last few seconds. ` +
          "The broker's time runs from a request to the beginning of its response and includes a fetch's wait for records." +
          (throttled.length ? ` Throttled by quota: ${throttled.map(([kind, times]) => `${kind} ${integer(times)}`).join(", ")}.` : "");
        const others = found.requests_of_others
          ? ` ${count(found.requests_of_others, "request")} of clients beyond those that are counted by name.`
          : "";
        left.textContent = (found.left_out ? `Left out: ${integer(found.left_out)} clients and APIs with fewer bytes.` : "") + others;
      }
      table.show(found.traffic);
    },
  });
};
