// Verdicts, best rank first; what is explained by another stands under it.
import { address, get } from "../api.js";
import { el } from "../dom.js";
import { listen } from "../live.js";
import { keyed, polled } from "../table.js";
import { count, integer, moment } from "../words.js";
import { article, folded, referenceOf, suspicions } from "./verdict.js";

export const title = "Verdicts";

const MOST = 100;
const TYPED_MS = 200;
const STATES = { open: "open", cleared: "over", all: "all" };

const textOf = ({ row, explains }) =>
  [row, ...explains]
    .map((each) => `${each.title || ""} ${each.verdict} ${each.subject} ${each.principal || ""} ${each.why} ${each.action}`)
    .join(" ")
    .toLowerCase();

class VerdictsView {
  constructor(main, { query, go }) {
    this.go = go;
    this.causes = [];
    this.filter = el("input", {
      type: "search",
      autocomplete: "off",
      spellcheck: "false",
      "data-filter": true,
      input: () => {
        clearTimeout(this.typing);
        this.typing = setTimeout(() => this.go({ ...this.query, q: this.filter.value.trim() }), TYPED_MS);
      },
    });
    this.chips = el("div", { class: "chips", role: "group", "aria-label": "Which verdicts" });
    this.status = el("p", { class: "soft", role: "status" });
    this.list = el("div");
    this.left = el("p", { class: "left" });
    this.suspected = el("div");
    main.append(
      el("h1", { tabindex: "-1" }, "Verdicts"),
      el("div", { class: "tools" }, el("label", null, "Filter ", this.filter), this.chips),
      this.status,
    );
    this.navigate(query);
    this.polling = polled({
      main,
      listen,
      load: (signal) => get(address("api/verdicts", { state: this.state }), signal),
      draw: (found) => this.draw(found),
    });
    main.append(this.list, this.left, this.suspected);
  }

  navigate(query) {
    this.query = query;
    if (document.activeElement !== this.filter) this.filter.value = query.q || "";
    this.state = query.state in STATES ? query.state : "open";
    const held = [...this.chips.children].indexOf(document.activeElement);
    this.chips.replaceChildren(
      ...Object.entries(STATES).map(([key, text]) =>
        el(
          "button",
          {
            type: "button",
            class: `chip ${key === this.state ? "on" : ""}`,
            "aria-pressed": String(key === this.state),
            click: () => this.go({ ...this.query, state: key === "open" ? "" : key }),
          },
          text,
        ),
      ),
    );
    if (held >= 0) this.chips.children[held].focus();
    this.polling?.now();
  }

  draw(found) {
    const from = found.source === "tables" ? "From the tables of `fleetgauge fleet run`" : "Judged live";
    const time = `${from}, ${moment(found.judged_from)} to ${moment(found.judged_to)} UTC.`;
    const explained = found.verdicts.length;
    this.notJudged = found.not_judged;
    this.causes = folded(found.verdicts);
    const under = explained - this.causes.length;
    this.status.textContent = `${count(this.causes.length, "verdict")}${under ? `, ${integer(under)} explained by them` : ""}. ${time}`;
    if (found.first_verdicts) this.status.textContent += ` The first verdicts are possible from ${moment(found.first_verdicts)} UTC on.`;
    if (found.not_judged) this.status.textContent = `Not judged. ${found.not_judged}`;
    const rows = this.state === "open" ? found.suspected : [];
    this.suspected.replaceChildren(...(rows.length ? [suspicions(rows.slice(0, MOST))] : []));
    this.drawList();
  }

  drawList() {
    const wanted = (this.query.q || "").toLowerCase();
    const found = wanted ? this.causes.filter((each) => textOf(each).includes(wanted)) : this.causes;
    keyed(
      this.list,
      found.slice(0, MOST),
      ({ row }) => `${row.cluster_id} ${referenceOf(row)} ${row.opened_at}`,
      (each) => article(each),
    );
    const left = found.length - MOST;
    this.left.textContent =
      left > 0
        ? `Left out: ${integer(left)} further verdicts. Narrow the filter to see them.`
        : found.length
          ? ""
          : this.causes.length
            ? "Nothing matches the filter."
            : this.notJudged
              ? ""
              : "There are none. Metrics that a client's library does not send are not judged: docs/analyse/verdicts.md.";
  }

  close() {
    clearTimeout(this.typing);
    this.polling.close();
  }
}

export const open = (main, context) => new VerdictsView(main, context);
