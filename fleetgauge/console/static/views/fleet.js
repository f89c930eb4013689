// The fleet: its overview, and the list of its clients, filtered, sorted, or grouped. All of that is in the address.
import { address, get } from "../api.js";
import { encoded, el, name, replace, say, shown } from "../dom.js";
import { VirtualList } from "../list.js";
import { latest, listen } from "../live.js";
import { FIGURES } from "../measures.js"; // made by console/web.py from console/measures.py
import { Table } from "../table.js";
import { STATES, ago, amount, countedStates, count, integer, mark, state } from "../words.js";
import { drawOverview } from "./overview.js";

export const title = "Fleet";

const TYPED_MS = 200;
const LOADING_MS = 400; // how long a list may take before that is said
const EVERY_MS = 4_000;
const USUAL_SORT = "severity";
const FILTERS = ["q", "state", "principal", "software", "broker", "group", "application", "verdict", "instance_id"];

const GROUPINGS = {
  application: "application",
  principal: "team (principal)",
  software: "library",
  version: "library and version",
  broker: "broker",
  group: "consumer group",
  role: "role",
  state: "state",
};

const software = (row) => `${row.client_software_name ?? "unknown"}/${row.client_software_version ?? "unknown"}`;

const columns = (figure) => [
  {
    key: "client_id",
    head: "Client id",
    cell: (row) => [
      mark(row.severity),
      el("a", { href: `#/client/${encoded(row.client_instance_id)}`, tabindex: "-1" }, name(row.client_id)),
    ],
  },
  { key: "state", head: "State", cell: (row) => state(row.state) },
  {
    key: "severity",
    head: "Verdicts",
    cell: (row) =>
      row.verdicts?.length ? el("span", { class: "verdicts" }, shown(row.verdicts.join(", "), 60)) : el("span", { class: "soft" }, "-"),
  },
  { key: "client_software_name", head: "Library", cell: (row) => name(software(row), 25) },
  { key: "principal", head: "Principal", cell: (row) => name(row.principal, 40) },
  { key: "group_id", head: "Group", cell: (row) => (row.group_id ? name(row.group_id, 40) : el("span", { class: "soft" }, "-")) },
  { key: figure, head: FIGURES[figure][0], isNumber: true, cell: (row) => amount(row.measures?.[figure], FIGURES[figure][1]) },
  ...(figure === "lag_records"
    ? []
    : [{ key: "lag_records", head: "Lag", isNumber: true, cell: (row) => amount(row.measures?.lag_records, "records") }]),
  { key: "last_push_at", head: "Last push", isNumber: true, cell: (row) => ago(row.last_push_at) },
];

const isNarrow = matchMedia("(max-width: 40rem)");

class FleetView {
  constructor(main, query, go) {
    this.go = go;
    this.query = query;
    this.overview = el("section", { "aria-label": "Overview" }, el("p", { class: "soft" }, "Waiting for the first figures."));
    this.filter = el("input", {
      id: "filter",
      type: "search",
      autocomplete: "off",
      spellcheck: "false",
      placeholder: "client id, principal, library, group, address, instance id",
      "data-filter": true,
      input: () => this.typed(),
    });
    this.by = this.select("by", "Group by", { "": "no grouping", ...GROUPINGS });
    this.figure = this.select(
      "figure",
      "Figure",
      Object.fromEntries(Object.entries(FIGURES).map(([key, [label]]) => [key, label.toLowerCase()])),
      "request_latency_avg_ms",
    );
    this.chips = el("div", { class: "chips", role: "group", "aria-label": "States" });
    this.active = el("div", { class: "chips", role: "group", "aria-label": "Filters in force" });
    this.status = el("p", { class: "soft status", role: "status" });
    this.problem = el("p", { class: "warn", role: "alert", hidden: true });
    this.results = el("div");
    this.tools = el("div", { class: "tools" }, el("label", { class: "grow" }, "Filter ", this.filter), this.by.label, this.figure.label);
    this.section = el(
      "section",
      { "aria-labelledby": "clients-h" },
      el("h2", { id: "clients-h" }, "Clients"),
      this.tools,
      el("div", { class: "filters" }, this.chips, this.active),
      this.status,
      this.problem,
      this.results,
    );
    main.append(el("h1", { class: "unseen", tabindex: "-1" }, "Fleet"), this.overview, this.section);
    this.last = 0;
    this.navigate(query);
    this.end = listen((overview) => this.changed(overview));
  }

  select(key, label, options, usual = "") {
    const box = el(
      "select",
      { change: () => this.set({ [key]: box.value === usual ? "" : box.value }) },
      Object.entries(options).map(([value, text]) => el("option", { value }, text)),
    );
    return { box, label: el("label", null, `${label} `, box), usual };
  }

  isFiltered() {
    return FILTERS.some((key) => this.query[key]);
  }

  // Puts a change of the query into the address; what is empty leaves it.
  set(changes) {
    const query = { ...this.query, ...changes };
    if ("by" in changes || FILTERS.some((key) => key in changes)) delete query.offset;
    this.go(query);
  }

  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.set({ q: this.filter.value.trim() }), TYPED_MS);
  }

  // Draws what an address asks for; `isTyped` if it was made in this view's own controls.
  navigate(query, isTyped = false) {
    this.query = query;
    this.isFolded = this.isFiltered() && (this.isFolded || !isTyped);
    if (latest()) drawOverview(this.overview, latest(), this.isFolded);
    if (document.activeElement !== this.filter) this.filter.value = query.q || "";
    this.by.box.value = query.by in GROUPINGS ? query.by : "";
    this.figureName = query.figure in FIGURES ? query.figure : this.figure.usual;
    this.figure.box.value = this.figureName;
    clearTimeout(this.waiting);
    this.list?.close();
    this.list = this.table = null;
    this.drawActive();
    this.waiting = setTimeout(() => (this.status.textContent = "Loading."), LOADING_MS);
    if (this.by.box.value) this.group();
    else this.listClients();
    this.fetchStates();
    if (this.section.getBoundingClientRect().top < 0) this.section.scrollIntoView({ block: "start" });
  }

  asked() {
    return Object.fromEntries(FILTERS.map((key) => [key, this.query[key]]));
  }

  drawActive() {
    const given = FILTERS.filter((key) => key !== "q" && key !== "state" && this.query[key]);
    const chip = (key) =>
      el(
        "button",
        { type: "button", class: "chip on", title: "Remove this filter", click: () => this.set({ [key]: "" }) },
        `${key === "principal" ? "team" : key.replace("_", " ")}: `,
        name(this.query[key], 60),
        " ×",
      );
    const withVerdicts = this.query.verdict
      ? null
      : el("button", { type: "button", class: "chip", click: () => this.set({ verdict: "any" }) }, "with verdicts");
    const none = this.isFiltered()
      ? el(
          "button",
          { type: "button", class: "chip", click: () => this.set(Object.fromEntries(FILTERS.map((key) => [key, ""]))) },
          "Remove all filters",
        )
      : null;
    replace(this.active, given.map(chip), withVerdicts, none);
  }

  async fetchStates() {
    this.counting?.abort();
    const mine = (this.counting = new AbortController());
    try {
      const found = await get(address("api/facets", { by: "state", ...this.asked(), state: "" }), mine.signal);
      this.drawStates(Object.fromEntries(found.facets.map((each) => [each.value, each.clients])));
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    }
  }

  drawStates(counts) {
    const wanted = new Set((this.query.state || "").split(",").filter(Boolean));
    const names = Object.keys(STATES).filter((each) => counts[each] || wanted.has(each));
    const held = [...this.chips.children].indexOf(document.activeElement);
    replace(
      this.chips,
      names.map((each) => {
        const toggled = new Set(wanted);
        if (!toggled.delete(each)) toggled.add(each);
        return el(
          "button",
          {
            type: "button",
            class: `chip ${wanted.has(each) ? "on" : ""}`,
            "aria-pressed": String(wanted.has(each)),
            title: STATES[each],
            click: () => this.set({ state: [...toggled].join(",") }),
          },
          state(each),
          ` ${integer(counts[each] || 0)}`,
        );
      }),
    );
    if (held >= 0) this.chips.children[held]?.focus({ preventScroll: true });
  }

  failed(error) {
    clearTimeout(this.waiting);
    this.problem.textContent = error.message;
    this.problem.hidden = false;
  }

  listClients() {
    const sort = this.query.sort || USUAL_SORT;
    const order = this.query.order === "asc" ? "asc" : "desc";
    const shownColumns = columns(this.figureName);
    const head = el(
      "div",
      { class: "row head", role: "row", "aria-rowindex": "1" },
      shownColumns.map((column) => {
        const isSorted = column.key === sort;
        return el(
          "div",
          {
            role: "columnheader",
            class: `cell ${column.isNumber ? "num" : ""}`,
            "aria-sort": isSorted ? (order === "asc" ? "ascending" : "descending") : null,
          },
          el("button", { type: "button", class: "sort", click: () => this.sortBy(column) }, column.head),
        );
      }),
    );
    this.head = head;
    const grid = el(
      "div",
      {
        class: `list columns-${shownColumns.length}`,
        role: "grid",
        tabindex: "0",
        "aria-label": "Clients",
        "aria-colcount": shownColumns.length,
        keydown: (event) => this.key(event),
        click: (event) => this.clicked(event),
      },
      el("div", { role: "rowgroup", class: "heads" }, head),
    );
    this.list = new VirtualList({
      grid,
      height: () => (isNarrow.matches ? 62 : 34),
      load: async (offset, limit, signal) => {
        const found = await get(address("api/clients", { ...this.asked(), sort, order, offset, limit }), signal);
        return { total: found.total, rows: found.clients };
      },
      build: (row) =>
        shownColumns.map((column) =>
          el(
            "div",
            {
              role: "gridcell",
              class: `cell ${column.isNumber ? "num" : ""} of-${column.key.replaceAll("_", "-")}`,
              "data-head": column.head,
            },
            column.cell(row),
          ),
        ),
      placeholder: () => el("div", { role: "gridcell", class: "cell soft" }, "…"),
      settled: ({ total }) => {
        this.arrived(grid);
        const text = total
          ? count(total, "client")
          : this.isFiltered()
            ? "No client matches the filter."
            : "No clients yet. A client appears here with its first push.";
        if (this.status.textContent !== text) this.status.textContent = text;
        grid.setAttribute("aria-rowcount", total + 1);
        grid.hidden = total === 0;
      },
      failed: (error) => this.failed(error),
    });
    this.list.reset();
  }

  // By the address, not by what is shown: the list of the click before may be under way.
  sortBy({ key, isNumber }) {
    const isSorted = key === (this.query.sort || USUAL_SORT);
    const usual = isNumber || key === USUAL_SORT ? "desc" : "asc";
    const other = this.query.order === "asc" ? "desc" : "asc";
    this.set({ sort: key, order: isSorted ? other : usual });
  }

  // Puts a new list or table in the place of the old one, which stays until the new one has something to show.
  arrived(element) {
    clearTimeout(this.waiting);
    this.problem.hidden = true;
    const old = this.results.firstElementChild;
    if (old === element) return;
    const buttons = (of) => [of, ...of.querySelectorAll("button, input")];
    const focused = old ? buttons(old).indexOf(document.activeElement) : -1;
    replace(this.results, element);
    if (focused >= 0) buttons(element)[focused]?.focus({ preventScroll: true });
  }

  group() {
    const by = this.by.box.value;
    const figure = this.figureName;
    const linked = (row) => {
      const key = { version: "software" }[by] || by;
      if (row.value === null || row.value === undefined) return el("span", { class: "soft" }, "unknown");
      if (!FILTERS.includes(key)) return name(row.value);
      return el("a", { href: `#${this.addressOf({ ...this.query, by: "", [key]: String(row.value) })}` }, name(row.value));
    };
    this.table = new Table({
      label: `Clients by ${GROUPINGS[by]}`,
      keyOf: (row) => JSON.stringify(row.value),
      empty: this.isFiltered() ? "No client matches the filter." : "No clients yet.",
      columns: [
        { head: GROUPINGS[by], isHeading: true, value: (row) => row.value, cell: linked },
        { head: "Clients", isNumber: true, value: (row) => row.clients, cell: (row) => integer(row.clients) },
        {
          head: "States",
          wide: true,
          value: (row) => row.states?.vanished || 0,
          cell: (row) => countedStates(row.states),
        },
        {
          head: "Worst verdict",
          value: (row) => ({ info: 1, warning: 2, critical: 3 })[row.severity] ?? 0,
          isNumber: false,
          cell: (row) => mark(row.severity) || el("span", { class: "soft" }, "-"),
        },
        {
          head: `${FIGURES[figure][0]}, median`,
          isNumber: true,
          value: (row) => row.measures?.[figure],
          cell: (row) => amount(row.measures?.[figure], FIGURES[figure][1]),
        },
        {
          head: "Lag, median",
          isNumber: true,
          wide: true,
          value: (row) => row.measures?.lag_records,
          cell: (row) => amount(row.measures?.lag_records, "records"),
        },
      ],
    });
    this.fetchGroups();
  }

  addressOf(query) {
    return address("/fleet", query);
  }

  async fetchGroups() {
    this.grouping?.abort();
    const mine = (this.grouping = new AbortController());
    const table = this.table;
    try {
      const found = await get(address("api/facets", { by: this.by.box.value, ...this.asked() }), mine.signal);
      if (table !== this.table) return;
      this.arrived(table.element);
      table.show(found.facets);
      const more = typeof found.more === "number" ? found.more : 0;
      this.status.textContent = more
        ? `The ${integer(found.facets.length)} with most clients; ${integer(more)} more are left out. Narrow the filter to see them.`
        : "";
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    }
  }

  // A new snapshot is there.
  changed(overview) {
    drawOverview(this.overview, overview, this.isFolded);
    if (document.hidden) return;
    const wait = Math.max(0, this.last + EVERY_MS - Date.now());
    this.next ??= setTimeout(() => {
      this.next = null;
      this.last = Date.now();
      if (this.table) this.fetchGroups();
      else this.list?.refresh();
      this.fetchStates();
    }, wait);
  }

  clicked(event) {
    const row = event.target.closest("[data-index]");
    if (!row || event.target.closest("a, button")) return;
    this.list.activate(Number(row.dataset.index));
  }

  key(event) {
    if (event.target.closest("button")) return;
    const moves = { PageDown: this.list.perScreen(), PageUp: -this.list.perScreen(), Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.move(moves[event.key]);
  }

  // j and k, arrows, Enter and Esc, from wherever they are pressed.
  move(by) {
    if (!this.list) return;
    const steps = Number.isFinite(by) ? by : by < 0 ? -this.list.total : this.list.total;
    this.list.move(steps, this.head.offsetHeight);
    const row = this.list.row(this.list.active);
    if (row) say(`${shown(row.client_id, 80)}, ${row.state}`);
  }

  enter() {
    const row = this.list && this.list.active >= 0 ? this.list.row(this.list.active) : null;
    if (row) location.hash = `#/client/${encoded(row.client_instance_id)}`;
    return Boolean(row);
  }

  escape() {
    if (document.activeElement === this.filter && this.filter.value) {
      this.filter.value = "";
      this.set({ q: "" });
    } else if (document.activeElement !== document.body) document.activeElement.blur();
    else this.list?.activate(-1);
  }

  close() {
    this.end();
    this.list?.close();
    clearTimeout(this.typing);
    clearTimeout(this.waiting);
    clearTimeout(this.next);
    this.counting?.abort();
    this.grouping?.abort();
  }
}

export const open = (main, { query, go }) => new FleetView(main, query, go);
