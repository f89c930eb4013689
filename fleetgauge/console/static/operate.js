// What changes something: logging in, the question before it is done, and why there is no button.
import { change, logIn, logOut, session } from "./api.js";
import { el, replace, say } from "./dom.js";

export const mayOperate = () => session.role === "operate";

// A dialog with a heading and a body; `Esc` and its own button close it. Resolves when it is closed.
export const dialog = (heading, body, buttons = []) => {
  const box = el("dialog", { "aria-labelledby": "dialog-h" });
  const end = () => box.close();
  replace(
    box,
    el("h2", { id: "dialog-h" }, heading),
    body,
    el(
      "p",
      { class: "buttons" },
      buttons,
      el("button", { type: "button", autofocus: true, click: end }, buttons.length ? "Cancel" : "Close"),
    ),
  );
  document.body.append(box);
  box.showModal();
  const closed = new Promise((resolve) =>
    box.addEventListener("close", () => {
      box.remove();
      resolve();
    }),
  );
  return { box, end, closed };
};

// Asks before `act` is done; what fails is said in the dialog, which stays.
export const confirm = ({ heading, text, verb, act, isDanger = true }) => {
  const problem = el("p", { class: "warn", role: "alert", hidden: true });
  const button = el(
    "button",
    {
      type: "button",
      class: isDanger ? "danger" : "main",
      click: async () => {
        button.disabled = true;
        problem.hidden = true;
        try {
          await act();
          shownBox.end();
        } catch (error) {
          problem.textContent = error.message;
          problem.hidden = false;
          button.disabled = false;
        }
      },
    },
    verb,
  );
  const shownBox = dialog(heading, el("div", null, el("p", null, text), problem), [button]);
  return shownBox.closed;
};

const openLogIn = (onChange) => {
  const user = el("input", { class: "unseen", autocomplete: "username", value: "operator", tabindex: "-1", "aria-hidden": "true" });
  const token = el("input", { type: "password", name: "token", autocomplete: "current-password", required: true });
  const problem = el("p", { class: "warn", role: "alert", hidden: true });
  const form = el(
    "form",
    {
      id: "log-in",
      submit: async (event) => {
        event.preventDefault();
        try {
          await logIn(token.value);
          shownBox.end();
          say("Logged in: you can make changes now.");
          onChange();
        } catch (error) {
          problem.textContent = error.message;
          problem.hidden = false;
          token.select();
        }
      },
    },
    el("p", null, "The token is the content of the file that ", el("code", null, "console.operate.token.file"), " names on the server."),
    user, // for password managers
    el("p", null, el("label", { class: "field" }, "Token ", token)),
    problem,
  );
  const shownBox = dialog("Log in to operate", form, [el("button", { type: "submit", class: "main", form: "log-in" }, "Log in")]);
  token.focus();
};

export const drawRole = (parent, onChange) => {
  const leave = async () => {
    try {
      await logOut();
    } finally {
      onChange();
    }
  };
  if (mayOperate()) replace(parent, "operate ", el("button", { type: "button", click: leave }, "Log out"));
  else if (session.can_log_in)
    replace(parent, el("button", { type: "button", id: "log-in-button", click: () => openLogIn(onChange) }, "Log in"));
  else
    replace(
      parent,
      el(
        "span",
        { class: "soft", title: "Set console.operate.token.file in the configuration to change things from this page." },
        "read-only",
      ),
    );
};

// Why there is no button for this here; null where there is one.
export const whyNot = (what) => {
  if (mayOperate()) return null;
  return el(
    "p",
    { class: "soft" },
    session.can_log_in
      ? `To ${what}, log in (at the top of the page).`
      : [
          `This page is read-only. To ${what} from here, set `,
          el("code", null, "console.operate.token.file"),
          " in the node's configuration to a file with a token, and log in with it.",
        ],
  );
};

export { change };
