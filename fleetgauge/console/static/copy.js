// A button that copies a text; where the page has no clipboard (plain HTTP elsewhere than localhost) by a selection.
import { el, say } from "./dom.js";

const copied = async (text) => {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // not allowed: by a selection, as below
    }
  }
  const box = el("textarea", { class: "unseen", readonly: true, tabindex: "-1" });
  box.value = text;
  document.body.append(box);
  box.select();
  const isDone = document.execCommand("copy");
  box.remove();
  return isDone;
};

export const copyButton = (text, what) => {
  const button = el(
    "button",
    {
      type: "button",
      class: "small",
      "aria-label": `Copy ${what}`,
      click: async () => {
        const isDone = await copied(text);
        button.textContent = isDone ? "Copied" : "Not copied";
        say(isDone ? `Copied ${what}.` : "The browser did not allow copying.");
        button.focus();
        setTimeout(() => (button.textContent = "Copy"), 2_000);
      },
    },
    "Copy",
  );
  return button;
};
