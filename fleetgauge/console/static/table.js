// Tables and lists that are drawn again as data comes, without losing what the reader has open, focused or sorted.
import { el, replace } from "./dom.js";
import { integer } from "./words.js";

const FOCUSABLE = "a[href], button, input, select, textarea, summary";

// Children of `parent`, one for each item: elements of items that have not changed stay.
export const keyed = (parent, items, keyOf, build) => {
  const known = (parent.keyed ??= new Map());
  const used = new Set();
  let before = null;
  for (const item of items) {
    const key = keyOf(item);
    if (used.has(key)) continue;
    used.add(key);
    const text = JSON.stringify(item);
    let entry = known.get(key);
    if (!entry || entry.text !== text) {
      const element = build(item);
      if (entry) swap(entry.element, element);
      entry = { element, text };
      known.set(key, entry);
    }
    const follows = before ? before.nextSibling : parent.firstChild;
    if (follows !== entry.element) parent.insertBefore(entry.element, follows);
    before = entry.element;
  }
  for (const [key, { element }] of known) {
    if (!used.has(key)) {
      element.remove();
      known.delete(key);
    }
  }
};

const swap = (old, next) => {
  const open = [...old.querySelectorAll("details")].map((each) => each.open);
  next.querySelectorAll("details").forEach((each, at) => {
    if (open[at]) each.open = true;
  });
  const focused = [...old.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  old.replaceWith(next);
  if (focused >= 0) next.querySelectorAll(FOCUSABLE)[focused]?.focus({ preventScroll: true });
};

const compare = (one, other) => {
  if (one === null || one === undefined) return other === null || other === undefined ? 0 : 1;
  if (other === null || other === undefined) return -1;
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
};

const MOST_ROWS = 500;

// A table that is sorted by its headings and, with textOf, narrowed by a filter box. A column: head, value(row) to sort by,
// cell(row) to show, isNumber, isHeading, wide (left out on a narrow screen).
export class Table {
  constructor({ label, columns, keyOf, textOf = null, empty }) {
    Object.assign(this, { columns, keyOf, textOf, empty });
    this.rows = [];
    this.sorted = null;
    this.filter = el("input", { type: "search", autocomplete: "off", spellcheck: "false", "data-filter": true, input: () => this.draw() });
    this.status = el("span", { class: "soft", role: "status" });
    this.body = el("tbody");
    this.heads = columns.map((column) =>
      el(
        "th",
        { scope: "col", class: classes(column) },
        el("button", { type: "button", class: "sort", click: () => this.sort(column) }, column.head),
      ),
    );
    this.left = el("p", { class: "left" });
    this.table = el("table", { class: "lines" }, el("thead", null, el("tr", null, this.heads)), this.body);
    this.element = el(
      "div",
      null,
      textOf ? el("p", { class: "tools" }, el("label", null, "Filter ", this.filter), this.status) : null,
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, this.table),
      this.left,
    );
  }

  sort(column) {
    const isUp = this.sorted?.column === column ? !this.sorted.isUp : !column.isNumber;
    this.sorted = { column, isUp };
    this.draw();
  }

  // `whyNot`: why there are none, where that is known better than by `empty`.
  show(rows, whyNot = null) {
    this.rows = rows;
    this.whyNot = whyNot;
    this.draw();
  }

  draw() {
    const wanted = this.filter.value.trim().toLowerCase();
    let found = wanted ? this.rows.filter((row) => this.textOf(row).toLowerCase().includes(wanted)) : [...this.rows];
    this.heads.forEach((head, at) => {
      if (this.sorted?.column === this.columns[at]) head.setAttribute("aria-sort", this.sorted.isUp ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    if (this.sorted) {
      const { column, isUp } = this.sorted;
      const known = found.filter((row) => column.value(row) !== null && column.value(row) !== undefined);
      const unknown = found.filter((row) => column.value(row) === null || column.value(row) === undefined);
      found = [...known.sort((one, other) => compare(column.value(one), column.value(other)) * (isUp ? 1 : -1)), ...unknown];
    }
    this.status.textContent = wanted ? `${integer(found.length)} of ${integer(this.rows.length)}` : "";
    this.table.hidden = !found.length;
    const left = found.length - MOST_ROWS;
    this.left.textContent = left > 0 ? `Left out: ${integer(left)} further rows. Narrow the filter to see them.` : "";
    if (!found.length) this.left.textContent = wanted ? "Nothing matches the filter." : this.whyNot || this.empty;
    keyed(this.body, found.slice(0, MOST_ROWS), this.keyOf, (row) =>
      el(
        "tr",
        null,
        this.columns.map((column) => cellOf(column, row)),
      ),
    );
  }
}

const classes = (column) => [column.isNumber ? "num" : "", column.wide ? "wide" : ""].join(" ").trim() || null;

const cellOf = (column, row) =>
  el(
    column.isHeading ? "th" : "td",
    { scope: column.isHeading ? "row" : null, class: classes(column), "data-head": column.isHeading ? null : column.head },
    column.cell(row),
  );

// Draws what a request answers, again whenever `listen` calls (see live.js), every 5 s at most; a failure is said above it.
export const polled = ({ main, listen, load, draw, error }) => {
  const EVERY_MS = 5_000;
  const box = error || el("p", { class: "warn", role: "alert", hidden: true });
  if (!error) main.append(box);
  let controller = null,
    next = null,
    last = 0;
  const now = async () => {
    clearTimeout(next);
    next = null;
    last = Date.now();
    controller?.abort();
    const mine = (controller = new AbortController());
    try {
      const found = await load(mine.signal);
      if (mine.signal.aborted) return;
      box.hidden = true;
      draw(found);
    } catch (failure) {
      if (failure.name === "AbortError" || mine.signal.aborted) return;
      replace(box, failure.message);
      box.hidden = false;
    }
  };
  const end = listen(() => {
    if (!document.hidden) next ??= setTimeout(now, Math.max(0, last + EVERY_MS - Date.now()));
  });
  now();
  return {
    now,
    close: () => {
      end();
      clearTimeout(next);
      controller?.abort();
    },
  };
};
