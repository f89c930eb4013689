// A list of any length that scrolls with the window: only the rows in sight are elements, and only their pages are asked for.
import { el } from "./dom.js";

const PAGE = 100;
const MOST_PAGES = 50; // that are kept
const AROUND = 8; // rows above and below what is in sight
const SETTLE_MS = 80; // how long scrolling has to rest before pages are asked for
const TALLEST_PX = 15_000_000; // browsers lay out little more

export class VirtualList {
  // `load(offset, limit, signal)` resolves to { total, rows }; `build(row, index)` makes the cells of a row;
  // `placeholder()` those of one that is not there yet; `settled({ total })` and `failed(error)` tell the view.
  constructor({ grid, height, load, build, placeholder, settled, failed }) {
    Object.assign(this, { grid, height, load, build, placeholder, settled, failed });
    this.window = el("div", { class: "window", role: "presentation" });
    this.body = el("div", { class: "rows", role: "rowgroup" }, this.window);
    this.grid.append(this.body);
    this.total = 0;
    this.active = -1;
    this.pages = new Map(); // number -> { rows, isStale }
    this.asked = new Map(); // number -> AbortController
    this.elements = new Map(); // index -> { element, row }
    this.draw = () => {
      this.frame ??= requestAnimationFrame(() => {
        this.frame = null;
        this.render();
      });
    };
    addEventListener("scroll", this.draw, { passive: true });
    addEventListener("resize", this.draw);
  }

  close() {
    removeEventListener("scroll", this.draw);
    removeEventListener("resize", this.draw);
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    for (const each of this.asked.values()) each.abort();
  }

  // Begins again, as after another filter.
  reset() {
    for (const each of this.asked.values()) each.abort();
    this.asked.clear();
    this.pages.clear();
    this.activate(-1);
    this.fetchVisible();
  }

  // Asks again for what is in sight; the old rows stay until the new ones come.
  refresh() {
    for (const page of this.pages.values()) page.isStale = true;
    this.fetchVisible();
  }

  row(index) {
    return this.pages.get(Math.floor(index / PAGE))?.rows[index % PAGE] ?? null;
  }

  range() {
    const top = this.body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / this.height()) - AROUND);
    const last = Math.max(first, Math.ceil((innerHeight - top) / this.height())) + AROUND;
    return [Math.min(first, Math.max(0, this.shownTotal() - 1)), Math.min(last, this.shownTotal())];
  }

  shownTotal() {
    return Math.min(this.total, Math.floor(TALLEST_PX / this.height()));
  }

  render() {
    this.body.style.height = `${this.shownTotal() * this.height()}px`;
    const [first, last] = this.range();
    this.window.style.transform = `translateY(${first * this.height()}px)`;
    for (const [index, { element }] of this.elements) {
      if (index < first || index >= last) {
        element.remove();
        this.elements.delete(index);
      }
    }
    let before = null;
    for (let index = first; index < last; index += 1) {
      const row = this.row(index);
      let known = this.elements.get(index);
      if (!known || (known.row !== row && JSON.stringify(known.row) !== JSON.stringify(row))) {
        const element = el(
          "div",
          { class: row ? "row" : "row waiting", role: "row", id: `row-${index}`, "aria-rowindex": index + 2, "data-index": index },
          row ? this.build(row) : this.placeholder(),
        );
        if (known) known.element.replaceWith(element);
        known = { element, row };
        this.elements.set(index, known);
      }
      known.element.classList.toggle("active", index === this.active);
      const follows = before ? before.nextSibling : this.window.firstChild;
      if (follows !== known.element) this.window.insertBefore(known.element, follows);
      before = known.element;
    }
    if (this.wantedPages().some((page) => this.isDue(page))) this.fetchSoon();
  }

  wantedPages() {
    const [first, last] = this.range();
    const from = Math.floor(first / PAGE),
      to = Math.floor(Math.max(last - 1, first) / PAGE);
    return Array.from({ length: to - from + 1 }, (_, at) => from + at);
  }

  fetchSoon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.fetchVisible(), SETTLE_MS);
  }

  fetchVisible() {
    const wanted = this.wantedPages();
    for (const [page, controller] of this.asked) {
      if (!wanted.includes(page)) {
        controller.abort();
        this.asked.delete(page);
      }
    }
    for (const page of [...this.pages.keys()]) {
      if (this.pages.size > MOST_PAGES && !wanted.includes(page)) this.pages.delete(page);
    }
    for (const page of wanted) {
      if (this.isDue(page)) this.fetchPage(page);
    }
  }

  isDue(page) {
    const known = this.pages.get(page);
    return !this.asked.has(page) && (!known || known.isStale);
  }

  async fetchPage(page) {
    const controller = new AbortController();
    this.asked.set(page, controller);
    try {
      const found = await this.load(page * PAGE, PAGE, controller.signal);
      if (controller.signal.aborted) return;
      this.total = found.total;
      this.pages.set(page, { rows: found.rows, isStale: false });
      if (this.active >= this.total) this.activate(this.total - 1);
      this.settled(found);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
      return;
    } finally {
      if (this.asked.get(page) === controller) this.asked.delete(page);
    }
    this.render();
  }

  activate(index) {
    this.active = index;
    if (index < 0) this.grid.removeAttribute("aria-activedescendant");
    else this.grid.setAttribute("aria-activedescendant", `row-${index}`);
    this.draw();
  }

  // Moves the active row, and the window where it would be out of sight; `covered` [px] is what the head hides.
  move(by, covered) {
    if (!this.shownTotal()) return;
    const from = this.active >= 0 ? this.active : this.firstInSight(covered) - (Math.abs(by) === 1 ? by : 0);
    const index = Math.max(0, Math.min(this.shownTotal() - 1, from + by));
    const top = this.body.getBoundingClientRect().top + index * this.height();
    if (top < covered) scrollBy(0, top - covered);
    else if (top + this.height() > innerHeight) scrollBy(0, top + this.height() - innerHeight);
    this.render();
    this.activate(index);
  }

  firstInSight(covered) {
    return Math.ceil(Math.max(0, covered - this.body.getBoundingClientRect().top) / this.height());
  }

  // How many rows a page of the window has.
  perScreen() {
    return Math.max(1, Math.floor(innerHeight / this.height()) - 2);
  }
}
