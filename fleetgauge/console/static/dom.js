// Elements of the page. Text is always a text node: names that clients chose are never read as markup.
// What lives here: making elements, and text made visible. What does not: words (words.js), data (api.js).

const SVG = "http://www.w3.org/2000/svg";

const build = (element, properties, children) => {
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

// An element: properties are attributes, or listeners where the value is a function ({ click: () => ... }).
export const el = (name, properties, ...children) => build(document.createElement(name), properties, children);
export const svg = (name, properties, ...children) => build(document.createElementNS(SVG, name), properties, children);

const UNSEEN = /[\p{C}\p{Z}]/gu;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

const escaped = (character) => {
  if (character === " ") return character;
  const code = character.codePointAt(0);
  if (SHORT[character]) return SHORT[character];
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
};

// Text in which whatever does not print (control characters, marks of direction, no width) is its escape, as in
// the commands' output; a long one has an ellipsis in its middle.
export const shown = (text, most = 600) => {
  const whole = Array.from(
    String(text ?? "")
      .slice(0, 12000)
      .replace(UNSEEN, escaped),
  );
  if (whole.length <= most) return whole.join("");
  const head = Math.floor(most / 2) + 1;
  return `${whole.slice(0, head).join("")}…${whole.slice(whole.length - (most - head - 1)).join("")}`;
};

// A name that someone chose, isolated from the direction of its neighbours; the whole of it in the title.
export const name = (text, most = 80) => {
  if (text === null || text === undefined) return el("span", { class: "soft" }, "unknown");
  const cut = shown(text, most);
  const whole = shown(text, 2000);
  return el("bdi", { title: cut === whole ? null : whole }, cut || "(no name)");
};

export const sentence = (text) => el("bdi", null, shown(text));

export const replace = (parent, ...children) => {
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return parent;
};

// Says something to those who do not see the page.
export const say = (text) => {
  document.getElementById("said").textContent = text;
};

// A name for the address; what is not Unicode in it (half of a surrogate pair) becomes U+FFFD.
export const encoded = (text) => encodeURIComponent(String(text).toWellFormed?.() ?? text);
