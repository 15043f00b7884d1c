// Requests to the server, each with a deadline. Where it wants a token, the page gives it once, for a cookie.
import { createStore } from "./store.js";

const SECONDS = 1000;

// Whether the server answers; `since` is when it stopped.
export const connection = createStore({ connected: true, since: null });
// Whether a token is needed, and how often one was given.
export const authorisation = createStore({ needed: false, refused: false, version: 0 });

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }
}

// Gives the token to the server, which answers with a cookie that scripts cannot read.
export async function giveToken(token) {
  try {
    await request("/login", { method: "POST", body: { token } });
  } catch (error) {
    if (error.status !== 401) throw error;
    authorisation.set({ ...authorisation.get(), needed: true, refused: true });
    return;
  }
  authorisation.set({ needed: false, refused: false, version: authorisation.get().version + 1 });
}

function askForToken() {
  const before = authorisation.get();
  if (!before.needed) authorisation.set({ ...before, needed: true, refused: false });
}

function answered() {
  if (!connection.get().connected) connection.set({ connected: true, since: null });
}

function unreachable() {
  if (connection.get().connected) connection.set({ connected: false, since: Date.now() });
}

// Sends a request and returns the answer, as JSON or as text. An ApiError has status 0 if there was no answer.
export async function request(path, { method = "GET", body, seconds = 15, signal, text = false } = {}) {
  const deadline = AbortSignal.timeout(seconds * SECONDS);
  const options = { method, headers: {}, signal: signal ? AbortSignal.any([signal, deadline]) : deadline };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let answer;
  let content;
  try {
    answer = await fetch(path, options);
    content = await answer.text();
  } catch (reason) {
    if (signal?.aborted) throw reason;
    unreachable();
    const late = reason.name === "TimeoutError";
    throw new ApiError(0, late ? `The server has not answered within ${seconds} s.` : "The server cannot be reached.");
  }
  answered();
  if (answer.status === 401) {
    askForToken();
    throw new ApiError(401, "The server wants a token.");
  }
  if (!answer.ok) throw new ApiError(answer.status, messageOf(content, answer.status));
  if (text) return content;
  return content ? JSON.parse(content) : null;
}

export function messageOf(content, status) {
  try {
    const parsed = JSON.parse(content);
    const said = parsed.errors ?? parsed.detail ?? parsed;
    if (Array.isArray(said)) return said.map((each) => each.msg ?? String(each)).join("\n");
    if (typeof said === "string") return said;
  } catch {
    // Not JSON: below.
  }
  return content.trim().slice(0, 2000) || `The server answered with status ${status}.`;
}

// Uploads a program, and returns the id by which it can be run. `progress` gets the share that was sent.
export function upload(file, progress) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", "/jars/upload");
    sending.timeout = 600 * SECONDS;
    sending.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    sending.onerror = () => reject(new ApiError(0, "The server cannot be reached, or has refused the upload."));
    sending.ontimeout = () => reject(new ApiError(0, "The upload took longer than 10 minutes."));
    sending.onload = () => {
      if (sending.status === 401) askForToken();
      if (sending.status >= 300) {
        reject(new ApiError(sending.status, messageOf(sending.responseText, sending.status)));
      } else {
        resolve(JSON.parse(sending.responseText).filename.split("/").pop());
      }
    };
    const form = new FormData();
    form.append("jarfile", file, file.name);
    sending.send(form);
  });
}

// Waits for an asynchronous operation that Flink's API knows by a trigger id; returns what it has led to.
export async function outcome(path, { signal, seconds = 3600 } = {}) {
  const deadline = Date.now() + seconds * SECONDS;
  while (Date.now() < deadline) {
    let answer = null;
    try {
      answer = await request(path, { signal });
    } catch (reason) {
      if (reason.status !== 0) throw reason; // A server that restarts still knows the operation.
    }
    if (answer?.status?.id === "COMPLETED") {
      const failure = answer.operation?.["failure-cause"];
      if (failure) throw new ApiError(200, failure["stack-trace"] ?? failure.class);
      return answer.operation;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  throw new ApiError(0, `There was no result within ${seconds} s.`);
}
