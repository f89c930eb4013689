// Client-metrics subscriptions: who matches each, and changing one, after a look at what the change does.
import { get } from "../api.js";
import { encoded, el, name, replace, say, shown } from "../dom.js";
import { listen } from "../live.js";
import { change, dialog, mayOperate, whyNot } from "../operate.js";
import { keyed, polled } from "../table.js";
import { amount, at, count, integer, span } from "../words.js";

export const title = "Subscriptions";

const SELECTORS = [
  "client_instance_id",
  "client_id",
  "client_software_name",
  "client_software_version",
  "client_source_address",
  "client_source_port",
];
const NAME = "[a-zA-Z0-9._\\-]+";
const lines = (text) =>
  text
    .split("\n")
    .map((each) => each.trim())
    .filter(Boolean);

const signed = (value, unit) => `${value < 0 ? "−" : "+"}${amount(Math.abs(value), unit)}`;
const MOST_LINES = 12;

// What a plan says, in sentences: whom it touches, what it adds, and what speaks against it.
const planned = (plan) => {
  const { added } = plan;
  const [change] = plan.changes; // of one subscription, or none
  const matching = change ? `${count(change.clients, "live client matches", "live clients match")} it. ` : "";
  const remarks = [...plan.sentences, ...plan.notes];
  const left = remarks.length - MOST_LINES;
  return el(
    "div",
    { class: "plan", role: "status" },
    el("h3", null, "Effect"),
    el(
      "p",
      null,
      `${matching}${integer(plan.touched)} of ${count(plan.clients, "live client")} ${plan.touched === 1 ? "gets" : "get"} a different subscription. Estimated change, from the pushes of such clients: ${signed(added.pushes_per_minute, "")} pushes and ${signed(added.bytes_per_minute, "B")} per minute, and at least ${signed(added.series, "times")} series.`,
    ),
    remarks.length
      ? el(
          "ul",
          null,
          remarks.slice(0, MOST_LINES).map((each) => el("li", null, shown(each))),
        )
      : null,
    left > 0 ? el("p", { class: "left" }, `${integer(left)} more: fleetgauge subscriptions plan lists all.`) : null,
  );
};

// The form of one subscription, new where `given` is null: planned first, applied after that.
const edit = (given, again) => {
  const field = (label, input, hint) =>
    el("p", null, el("label", { class: "field" }, el("span", null, label), input), hint ? el("span", { class: "hint" }, hint) : null);
  const box = {
    name: el("input", {
      required: true,
      pattern: NAME,
      maxlength: 249,
      autocomplete: "off",
      spellcheck: "false",
      value: given?.name ?? "",
      readonly: Boolean(given),
    }),
    metrics: el("textarea", { rows: 4, spellcheck: "false" }),
    interval: el("input", { type: "number", min: 100, max: 3_600_000, step: 1, value: given?.interval_ms ?? 300_000, required: true }),
    match: el("textarea", { rows: 3, spellcheck: "false" }),
  };
  box.metrics.value = (given?.metrics ?? []).join("\n");
  box.match.value = (given?.match ?? []).join("\n");
  const problem = el("p", { class: "warn", role: "alert", hidden: true });
  const result = el("div");
  const wanted = () => ({
    name: box.name.value.trim(),
    metrics: lines(box.metrics.value),
    interval_ms: Number(box.interval.value),
    match: lines(box.match.value),
  });
  let seen = null; // what the plan that is shown was made of
  const fail = (error) => {
    problem.textContent = error.message;
    problem.hidden = false;
  };
  const changed = () => {
    seen = null;
    apply.disabled = true;
    replace(result);
  };
  const apply = el(
    "button",
    {
      type: "button",
      class: "main",
      disabled: true,
      click: async () => {
        apply.disabled = true;
        try {
          const { name: of, ...properties } = seen;
          await change("PUT", `api/subscriptions/${encoded(of)}`, properties);
          say(`Subscription ${of} is applied.`);
          shownBox.end();
          again();
        } catch (error) {
          fail(error);
        }
      },
    },
    "Apply",
  );
  const form = el(
    "form",
    {
      id: "subscription",
      input: changed,
      submit: async (event) => {
        event.preventDefault();
        problem.hidden = true;
        const asked = wanted();
        try {
          const plan = await change("POST", "api/subscriptions/plan", asked);
          if (JSON.stringify(asked) !== JSON.stringify(wanted())) return;
          seen = asked;
          replace(result, planned(plan));
          apply.disabled = false;
        } catch (error) {
          fail(error);
        }
      },
    },
    field("Name", box.name, "Name of the client-metrics resource: letters, digits, dots, - and _."),
    field(
      "Metrics",
      box.metrics,
      "One prefix of metric names per line, for example org.apache.kafka.consumer.; * selects all metrics, an empty field none.",
    ),
    field("Interval [ms]", box.interval, "Time between two pushes of a client: 100 to 3,600,000."),
    field(
      "Match",
      box.match,
      `One per line; all have to match: selector=regular expression. Selectors: ${SELECTORS.join(", ")}. Empty matches every client.`,
    ),
    problem,
    result,
  );
  const shownBox = dialog(given ? `Edit subscription ${shown(given.name, 60)}` : "New subscription", form, [
    el("button", { type: "submit", form: "subscription" }, "Show the effect"),
    apply,
  ]);
  shownBox.box.classList.add("wide-box");
  (given ? box.metrics : box.name).focus();
};

const remove = (given, again) => {
  const problem = el("p", { class: "warn", role: "alert", hidden: true });
  const result = el("p", { class: "soft" }, "Computing the effect.");
  const fail = (error) => {
    problem.textContent = error.message;
    problem.hidden = false;
  };
  const drop = el(
    "button",
    {
      type: "button",
      class: "danger",
      disabled: true,
      click: async () => {
        drop.disabled = true;
        try {
          await change("DELETE", `api/subscriptions/${encoded(given.name)}`);
          say(`Subscription ${given.name} is deleted.`);
          shownBox.end();
          again();
        } catch (error) {
          fail(error);
          drop.disabled = false;
        }
      },
    },
    "Delete",
  );
  const shownBox = dialog(`Delete subscription ${shown(given.name, 60)}?`, el("div", null, result, problem), [drop]);
  change("POST", "api/subscriptions/plan", { name: given.name, delete: true }).then(
    (plan) => {
      result.replaceWith(planned(plan));
      drop.disabled = false;
    },
    (error) => {
      result.replaceWith(el("p", null, `The effect could not be computed. ${count(given.clients ?? 0, "client")} match it now.`));
      fail(error);
      drop.disabled = false;
    },
  );
};

const card = ({ subscription, may }, again) =>
  el(
    "article",
    { class: "problem info" },
    el("h2", null, name(subscription.name)),
    el(
      "dl",
      { class: "facts" },
      el(
        "div",
        null,
        el("dt", null, "Clients"),
        el("dd", null, typeof subscription.clients === "number" ? `${count(subscription.clients, "client")} match now` : "unknown"),
      ),
      el(
        "div",
        null,
        el("dt", null, "Metrics"),
        el(
          "dd",
          null,
          subscription.metrics.length
            ? el(
                "ul",
                { class: "prefixes" },
                subscription.metrics.map((each) => el("li", null, el("code", null, each === "" ? "*" : shown(each, 200)))),
              )
            : "none: clients push no metrics for it",
        ),
      ),
      el(
        "div",
        null,
        el("dt", null, "Interval"),
        el("dd", null, `${span(subscription.interval_ms / 1000)} (${integer(subscription.interval_ms)} ms)`),
      ),
      el(
        "div",
        null,
        el("dt", null, "Match"),
        el(
          "dd",
          null,
          subscription.match.length
            ? el(
                "ul",
                { class: "prefixes" },
                subscription.match.map((each) => el("li", null, el("code", null, shown(each, 300)))),
              )
            : "every client",
        ),
      ),
      subscription.until
        ? el(
            "div",
            null,
            el("dt", null, "Removal"),
            el(
              "dd",
              null,
              at(subscription.until),
              subscription.overdue
                ? el("span", { class: "sev warning" }, " overdue: no process has removed it. fleetgauge status shows what stops the export.")
                : null,
            ),
          )
        : null,
    ),
    may
      ? el(
          "p",
          { class: "buttons" },
          el(
            "button",
            { type: "button", "aria-label": `Edit ${shown(subscription.name, 60)}`, click: () => edit(subscription, again) },
            "Edit",
          ),
          el(
            "button",
            {
              type: "button",
              class: "danger",
              "aria-label": `Delete ${shown(subscription.name, 60)}`,
              click: () => remove(subscription, again),
            },
            "Delete",
          ),
        )
      : null,
  );

export const open = (main) => {
  const list = el("div", { class: "cards" });
  const note = el("p", { class: "soft" });
  const tools = el("div");
  main.append(el("h1", { tabindex: "-1" }, "Subscriptions"), note, tools);
  note.textContent = "Loading.";
  const polling = polled({
    main,
    listen,
    load: (signal) => get("api/subscriptions", signal),
    draw: (found) => {
      const may = found.editable !== false && mayOperate();
      const none = found.subscriptions.length || found.source !== "node" ? "" : " There are none: no client is asked for metrics.";
      const from = found.source === "node" ? "Of this node." : `Of the ${shown(found.source, 200)}.`;
      note.textContent = `${from} A client gets the union of all that match it, at the shortest of their intervals.${none}`;
      keyed(
        tools,
        [{ may, editable: found.editable !== false, why: found.why_not || "" }],
        () => "tools",
        (each) =>
          each.may
            ? el(
                "p",
                { class: "buttons" },
                el("button", { type: "button", class: "main", click: () => edit(null, () => polling.now()) }, "New subscription"),
              )
            : each.editable
              ? whyNot("change subscriptions")
              : el("p", { class: "soft" }, shown(each.why || "They cannot be changed from here.")),
      );
      keyed(
        list,
        found.subscriptions.map((subscription) => ({ subscription, may })),
        (each) => each.subscription.name,
        (each) => card(each, () => polling.now()),
      );
    },
  });
  main.append(list);
  return polling;
};
