// One client: who it is, what it is asked for, how it does beside its peers, and how its own log names it.
import { get } from "../api.js";
import { chart } from "../chart.js";
import { copyButton } from "../copy.js";
import { encoded, el, name, replace, shown } from "../dom.js";
import { listen } from "../live.js";
import { keyed, polled } from "../table.js";
import { STATES, ago, at, bytes, integer, severity, span, state } from "../words.js";
import { article, referenceOf, suspicions } from "./verdict.js";

export const title = "Client";

const LOGS = {
  java: ["Java", "org.apache.kafka.common.telemetry: Client telemetry registered with client instance id: ..."],
  librdkafka: ["librdkafka", "debug=telemetry: Telemetry client instance id changed from ... to ..."],
  hex: ["franz-go", "client_instance_id: ..."],
  uuid: ["UUID", ""],
};

const fact = (label, ...value) => el("div", null, el("dt", null, label), el("dd", null, value));
const link = (query, text, most) =>
  text === null || text === undefined
    ? el("span", { class: "soft" }, "unknown")
    : el("a", { href: `#/fleet?${query}=${encoded(text)}` }, name(text, most));

const asked = (subscription, client) => {
  const names = subscription?.names ?? client.subscriptions;
  const metrics = subscription?.metrics ?? client.metrics;
  const interval = subscription?.push_interval_ms ?? client.push_interval_ms;
  return el(
    "dl",
    { class: "facts" },
    fact(
      "Subscriptions",
      names?.length
        ? names.map((each, index) => [index ? ", " : "", el("a", { href: "#/subscriptions" }, name(each))])
        : names
          ? "no subscription matches"
          : "unknown: records on a topic do not contain them",
    ),
    fact(
      "Metrics",
      metrics?.length
        ? el(
            "ul",
            { class: "prefixes" },
            metrics.map((each) => el("li", null, el("code", null, each === "" ? "all metrics" : shown(each, 200)))),
          )
        : metrics
          ? "none"
          : "unknown",
    ),
    fact("Push interval", typeof interval === "number" ? span(interval / 1000) : "unknown"),
    fact("Subscription id", String(subscription?.subscription_id ?? client.subscription_id ?? "unknown")),
  );
};

const identity = (client) =>
  el(
    "dl",
    { class: "facts" },
    fact("State", state(client.state), " ", el("span", { class: "soft" }, STATES[client.state] || "")),
    fact("Instance id", el("code", null, shown(client.client_instance_id)), " ", copyButton(client.client_instance_id, "the instance id")),
    fact("Client id", name(client.client_id, 300)),
    fact("Application", link("application", client.application, 120)),
    fact("Team", link("principal", client.principal, 120)),
    fact(
      "Library",
      link("software", client.client_software_name && `${client.client_software_name}/${client.client_software_version ?? "unknown"}`, 120),
    ),
    fact("Role", client.role || "unknown"),
    client.group_id ? fact("Consumer group", link("group", client.group_id, 120)) : null,
    fact(
      "Address",
      shown(client.client_source_address ?? "unknown", 80),
      client.client_source_port ? `:${client.client_source_port}` : "",
      client.listener ? [" at listener ", name(client.listener, 40)] : null,
    ),
  );

const traffic = (client) =>
  el(
    "dl",
    { class: "facts" },
    client.first_push_at ? fact("First push", ago(client.first_push_at)) : null,
    fact("Last push", ago(client.last_push_at)),
    fact("Last seen", ago(client.last_seen_at)),
    fact("Pushes", integer(client.pushes), typeof client.push_bytes === "number" ? `, ${bytes(client.push_bytes)}` : ""),
    typeof client.connections === "number" ? fact("Connections", integer(client.connections)) : null,
    client.broker !== undefined && client.broker !== null
      ? fact(
          "Broker",
          `${client.broker}`,
          client.partition !== null && client.partition !== undefined ? `, partition ${client.partition} of the topic` : "",
        )
      : null,
    typeof client.refused === "number" ? fact("Refused requests", integer(client.refused)) : null,
    fact(
      "Last error",
      client.last_error
        ? [
            el("code", null, shown(client.last_error, 80)),
            client.last_error_reason ? [", ", name(client.last_error_reason, 200)] : null,
            ", ",
            at(client.last_error_at),
          ]
        : "none known",
    ),
    client.malformed
      ? fact(
          "Malformed payloads",
          integer(client.malformed),
          ", ",
          name(client.malformed_reason, 200),
          ", ",
          at(client.malformed_at),
          ": ",
          name(client.malformed_detail, 300),
        )
      : null,
    client.asked_for_records
      ? fact("Records", "It requested records from this node, which has none: set its bootstrap.servers to your Kafka brokers.")
      : null,
  );

const names = (found, client) => {
  const rows = Object.entries(LOGS).filter(([key]) => found?.[key]);
  if (!rows.length) return null;
  return el(
    "section",
    { "aria-labelledby": "names-h" },
    el("h2", { id: "names-h" }, "In the client's own log"),
    el("p", { class: "soft" }, "Each library logs the instance id in its own form. Search the application's log for it:"),
    el(
      "div",
      { class: "scroll" },
      el(
        "table",
        { class: "names" },
        el(
          "tbody",
          null,
          rows.map(([key]) =>
            el(
              "tr",
              null,
              el("th", { scope: "row" }, LOGS[key][0]),
              el("td", null, el("code", null, shown(found[key], 100))),
              el("td", null, copyButton(found[key], `the id as ${LOGS[key][0]} writes it`)),
              el("td", { class: "soft wide" }, LOGS[key][1] && el("code", null, LOGS[key][1])),
            ),
          ),
        ),
      ),
    ),
    client.client_software_name ? null : el("p", { class: "soft" }, "Its library is unknown."),
  );
};

const measures = (series) =>
  series.map((each) =>
    chart({ title: each.label || each.measure, unit: each.unit, times: each.times, values: each.values, peers: each.peers || [] }),
  );

class ClientView {
  constructor(main, { id, heading }) {
    this.id = id;
    this.heading = heading;
    this.title = el("h1", { tabindex: "-1" }, "Client");
    this.gone = el("p", { class: "warn", role: "alert", hidden: true });
    this.about = el("div", { class: "pair" });
    this.names = el("div");
    this.verdicts = el("div");
    this.suspected = el("div");
    this.verdictsHead = el("h2", null, "Verdicts about this client");
    this.noVerdict = el("p", { class: "soft" });
    this.plots = el("div", { class: "plots" });
    this.plotsNote = el("p", { class: "soft" });
    const body = el(
      "div",
      { hidden: true },
      this.about,
      this.verdictsHead,
      this.noVerdict,
      this.verdicts,
      this.suspected,
      el("h2", null, "Last hour, compared with its peers"),
      this.plotsNote,
      this.plots,
      this.names,
    );
    this.body = body;
    main.append(el("p", null, el("a", { href: "#/fleet", click: (event) => this.back(event) }, "← Fleet")), this.title, this.gone, body);
    this.polling = polled({ main, listen, load: (signal) => this.load(signal), draw: (found) => this.draw(found), error: this.gone });
  }

  async load(signal) {
    return get(`api/clients/${encoded(this.id)}`, signal);
  }

  draw(found) {
    const { client } = found;
    replace(this.title, name(client.client_id, 120), " ", severity(client.severity), " ", state(client.state));
    this.heading(shown(client.client_id, 60));
    this.body.hidden = false;
    keyed(
      this.about,
      [
        { part: "who", of: client },
        { part: "asked", of: { subscription: found.subscription, client } },
      ],
      (each) => each.part,
      ({ part, of }) =>
        part === "who"
          ? el("section", { "aria-label": "Identity" }, el("h2", null, "Identity"), identity(of))
          : el(
              "section",
              { "aria-label": "Subscription" },
              el("h2", null, "Subscription"),
              asked(of.subscription, of.client),
              el("h2", null, "Pushes"),
              traffic(of.client),
            ),
    );
    const verdicts = found.verdicts || [];
    this.noVerdict.textContent = verdicts.length
      ? ""
      : found.not_judged
        ? `Not judged. ${found.not_judged}`
        : "No open verdicts about this client, its group or its brokers.";
    this.noVerdict.hidden = verdicts.length > 0;
    keyed(this.verdicts, verdicts, referenceOf, (row) => article({ row }, 3));
    const suspected = found.suspected || [];
    this.suspected.replaceChildren(...(suspected.length ? [suspicions(suspected)] : []));
    const series = found.series || [];
    this.plotsNote.textContent = series.length
      ? "Dotted: median of its peers (same role, library, and application or principal), if there are at least 8."
      : "No measures in the last hour: the client has not sent any yet, its subscription includes none of them, or its payloads were not decoded.";
    keyed(
      this.plots,
      series,
      (each) => `${each.measure}@${each.node_id ?? ""}`,
      (each) => measures([each])[0],
    );
    keyed(
      this.names,
      [found.names || {}],
      () => "names",
      (each) => names(each, client) || el("div"),
    );
  }

  back(event) {
    if (history.length > 1 && sessionStorage.getItem("from-fleet")) {
      event.preventDefault();
      history.back();
    }
  }

  escape() {
    if (sessionStorage.getItem("from-fleet") && history.length > 1) history.back();
    else location.hash = "#/fleet";
  }

  close() {
    this.polling.close();
  }
}

export const open = (main, context) => new ClientView(main, context);
