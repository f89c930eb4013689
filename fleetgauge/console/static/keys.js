// The keyboard: what each key does, and the list of them.
import { el } from "./dom.js";
import { dialog } from "./operate.js";

const KEYS = [
  ["/", "go to the filter"],
  ["j, ↓", "next row"],
  ["k, ↑", "previous row"],
  ["Page Up, Page Down, Home, End", "jump in the list while it has the focus"],
  ["Enter", "open the client"],
  ["Esc", "leave the filter; close; back to the list"],
  ["p", "pause and resume"],
  ["1 to 8", "views, in the order of the navigation bar"],
  ["?", "this list"],
];

export const showKeys = () =>
  dialog(
    "Keyboard",
    el(
      "table",
      { class: "keys-list" },
      el(
        "tbody",
        null,
        KEYS.map(([key, text]) => el("tr", null, el("th", { scope: "row" }, el("kbd", null, key)), el("td", null, text))),
      ),
    ),
  );

const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]");

// `current()` is the open view; a view may have move(by), enter() and escape().
export const startKeys = ({ current, togglePause }) => {
  const views = () => [...document.querySelectorAll("#views li:not([hidden]) a")];
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return;
    const view = current();
    if (event.key === "Escape") {
      if (view.escape) view.escape();
      else document.activeElement.blur();
      return;
    }
    const inFilter = isTyping(event.target) && event.target.dataset.filter !== undefined;
    if (isTyping(event.target)) {
      if (inFilter && event.key === "ArrowDown" && view.move) {
        event.preventDefault();
        document.querySelector("[role=grid]")?.focus({ preventScroll: true });
        view.move(1);
      }
      return;
    }
    const onControl = event.target.closest("a, button, summary");
    const act = {
      "/": () => {
        const box = document.querySelector("[data-filter]");
        box?.focus();
        box?.select();
      },
      j: () => view.move?.(1),
      k: () => view.move?.(-1),
      "?": showKeys,
      p: togglePause,
    };
    const inGrid = event.target === document.body || event.target.closest("[role=grid]") || event.target.id === "main";
    if (view.move && inGrid && !onControl)
      Object.assign(act, { ArrowDown: () => view.move(1), ArrowUp: () => view.move(-1), Enter: () => view.enter() });
    const number = Number(event.key);
    if (number >= 1 && number <= views().length) act[event.key] = () => views()[number - 1].click();
    if (Object.hasOwn(act, event.key)) {
      event.preventDefault();
      act[event.key]();
    }
  });
};
