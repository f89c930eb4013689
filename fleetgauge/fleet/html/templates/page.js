"use strict";
(() => {
  const make = (name, text, attributes) => {
    const found = document.createElement(name);
    found.textContent = text;
    for (const key in attributes || {}) found.setAttribute(key, attributes[key]);
    return found;
  };
  const value = (cell) => {
    const given = cell.dataset.value === undefined ? cell.textContent.trim() : cell.dataset.value;
    const number = Number(given.replace(/,/g, ""));
    return given !== "" && !Number.isNaN(number) ? number : given.toLowerCase();
  };
  const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);

  const sortable = (table) => {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = make("button", heading.textContent, { type: "button", class: "sort" });
      heading.textContent = "";
      heading.append(button);
      button.addEventListener("click", () => {
        const up = heading.getAttribute("aria-sort") === "descending";
        headings.forEach((each) => each.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => compare(value(a.cells[column]), value(b.cells[column])) * (up ? 1 : -1));
        table.tBodies[0].append(...rows);
      });
    });
  };

  const filter = (before, rows, what) => {
    if (rows.length < 2) return;
    const box = make("div", "", { class: "filter" });
    const label = make("label", `Filter ${what} `);
    const input = make("input", "", { type: "search", autocomplete: "off", spellcheck: "false" });
    const status = make("span", "", { role: "status", class: "soft" });
    label.append(input);
    box.append(label, status);
    before.before(box);
    const texts = rows.map((row) => row.textContent.toLowerCase());
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      let shown = 0;
      rows.forEach((row, at) => {
        row.hidden = !texts[at].includes(wanted);
        shown += row.hidden ? 0 : 1;
      });
      status.textContent = wanted ? ` ${shown} of ${rows.length}` : "";
    });
  };

  document.querySelectorAll("table.sortable").forEach((table) => {
    sortable(table);
    if (table.tBodies[0].rows.length > 8) filter(table.parentElement, [...table.tBodies[0].rows], "rows");
  });
  const section = document.getElementById("problems");
  const articles = section ? [...section.querySelectorAll("article")] : [];
  if (articles.length > 1) {
    const heading = section.querySelector("h2");
    const bar = make("div", "", { class: "tools" });
    heading.after(bar);
    const all = make("button", "Open all evidence", { type: "button", "aria-pressed": "false" });
    bar.append(all);
    filter(all, articles, "problems");
    all.addEventListener("click", () => {
      const open = all.getAttribute("aria-pressed") === "false";
      section.querySelectorAll("details").forEach((each) => (each.open = open));
      all.setAttribute("aria-pressed", String(open));
      all.textContent = open ? "Close all evidence" : "Open all evidence";
    });
  }
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((each) => (each.open = true));
  });
  addEventListener("afterprint", () => closed.forEach((each) => (each.open = false)));
})();
