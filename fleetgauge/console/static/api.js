// The JSON API: requests, their errors as one sentence, and the session that may change something.

class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status; // 0: no answer came
  }
}

export const session = { role: "read", csrf: null, can_log_in: false };

const asked = async (path, options) => {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer.", 0);
  }
  const text = await response.text();
  let body;
  try {
    body = text ? JSON.parse(text) : {};
  } catch {
    throw new ApiError(`The server's answer to ${path.split("?")[0]} is not JSON (HTTP ${response.status}).`, response.status);
  }
  if (!response.ok) throw new ApiError(body.error || `The server answered HTTP ${response.status}.`, response.status);
  return body;
};

const LONGEST_MS = 20_000; // an answer that takes longer is asked for again

export const get = (path, signal) => {
  const late = AbortSignal.timeout(LONGEST_MS);
  return asked(path, { signal: signal ? AbortSignal.any([signal, late]) : late });
};

export const change = (method, path, body) =>
  asked(path, {
    method,
    headers: { "Content-Type": "application/json", "X-CSRF-Token": session.csrf || "" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });

export const loadSession = async () => Object.assign(session, await get("api/session"));

export const logIn = async (token) => {
  await asked("api/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) });
  return loadSession();
};

export const logOut = async () => {
  await change("DELETE", "api/session");
  return loadSession();
};

// The address of a query: what is empty is left out.
export const address = (path, query) => {
  const given = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") given.set(key, value);
  }
  const text = given.toString();
  return text ? `${path}?${text}` : path;
};
