// What can be done to a running job: a savepoint, stop, cancel. Each asks first, and shows how it goes.
import { outcome, request } from "./api.js";
import { duration } from "./format.js";
import { announce, Copy } from "./parts.js";
import { html, useEffect, useRef, useState } from "./preact.js";

const KINDS = {
  savepoint: {
    button: "Savepoint",
    title: "Take a savepoint?",
    text: "The job goes on. A savepoint stays until you delete it, and a changed program can be started from it.",
    confirm: "Take savepoint",
    doing: "The savepoint is being taken",
    done: "The savepoint is complete.",
    directory: true,
  },
  stop: {
    button: "Stop",
    title: "Stop the job with a savepoint?",
    text: "Its sources stop, a savepoint is taken, and the job finishes. It can be started again from the savepoint.",
    confirm: "Stop job",
    doing: "The job is being stopped",
    done: "The job has stopped.",
    directory: true,
    drain: true,
  },
  cancel: {
    button: "Cancel",
    title: "Cancel the job?",
    text: "It ends at once, without a savepoint. Results since the last checkpoint are not committed.",
    confirm: "Cancel job",
    doing: "The job is being cancelled",
    done: "The job is being cancelled.",
    dangerous: true,
  },
};

async function perform(kind, job, { directory, drain }, signal) {
  const target = directory.trim() || undefined;
  if (kind === "cancel") {
    await request(`/jobs/${job.job_id}?mode=cancel`, { method: "PATCH", signal, seconds: 60 });
    return null;
  }
  const [path, body] = kind === "stop"
    ? ["stop", { targetDirectory: target, drain }]
    : ["savepoints", { "target-directory": target, "cancel-job": false }];
  const { "request-id": trigger } = await request(`/jobs/${job.job_id}/${path}`, { method: "POST", body, signal, seconds: 60 });
  return (await outcome(`/jobs/${job.job_id}/savepoints/${trigger}`, { signal })).location;
}

// The buttons go when the job has ended; the answer to a question stays until it is closed.
export function Actions({ job, features, ask, ended }) {
  const [kind, setKind] = useState(null);
  const names = ended ? [] : features.cancel ? ["savepoint", "stop", "cancel"] : ["savepoint"];
  if (ended && !kind) return null;
  return html`<div class="actions" role="group" aria-label="Actions">
    ${names.map((name) => html`<button type="button" class=${KINDS[name].dangerous ? "danger" : ""} onClick=${() => setKind(name)}>${KINDS[name].button}</button>`)}
    ${kind && html`<${Question} key=${kind} kind=${kind} job=${job} ask=${ask} close=${() => setKind(null)} />`}
  </div>`;
}

function Question({ kind, job, ask, close }) {
  const { title, text, confirm, doing, done, directory, drain, dangerous } = KINDS[kind];
  const dialog = useRef(null);
  const [fields, setFields] = useState({ directory: "", drain: false });
  const [state, setState] = useState({ step: "question" });
  const stopped = useRef(new AbortController());
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current.showModal();
    return () => {
      stopped.current.abort(); // The request was made; it is only not waited for.
      (opener?.isConnected ? opener : document.getElementById("main")).focus();
    };
  }, []);

  useEffect(() => {
    // The button that had the focus is gone; what comes next is the last one.
    if (state.step !== "question") [...dialog.current.querySelectorAll("button")].pop()?.focus();
  }, [state.step]);

  const begin = async (event) => {
    event.preventDefault();
    setState({ step: "doing", since: Date.now() });
    try {
      const location = await perform(kind, job, fields, stopped.current.signal);
      setState({ step: "done", location });
      announce(done);
    } catch (error) {
      if (stopped.current.signal.aborted) return;
      setState({ step: "failed", message: error.message });
      announce(`${confirm} failed`);
    }
    ask();
  };

  return html`<dialog ref=${dialog} aria-labelledby="question" onClose=${close}>
    <form onSubmit=${begin}>
      <h2 id="question">${title}</h2>
      <p class="soft">${job.name}</p>
      ${state.step === "question" && html`
        <p>${text}</p>
        ${directory && html`<label>Directory <input value=${fields.directory} onInput=${(event) => setFields({ ...fields, directory: event.target.value })} placeholder="the one in the job's configuration" spellcheck=${false} /></label>`}
        ${drain && html`<label class="check"><input type="checkbox" checked=${fields.drain} onChange=${(event) => setFields({ ...fields, drain: event.target.checked })} /> Drain: fire all timers first, as at the end of input</label>`}
        <div class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Back</button><button type="submit" class=${dangerous ? "danger filled" : "primary"}>${confirm}</button></div>`}
      ${state.step === "doing" && html`<p role="status" class="working">${doing} … <${Elapsed} since=${state.since} /></p>
        <div class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Do not wait</button></div>`}
      ${state.step === "done" && html`<p class="success" role="status">${done}</p>
        ${state.location && html`<p class="path"><code>${state.location}</code> <${Copy} text=${state.location} what="path" /></p>`}
        <div class="buttons"><button type="button" class="primary" onClick=${() => dialog.current.close()}>Close</button></div>`}
      ${state.step === "failed" && html`<pre class="problem" role="alert" tabindex="0">${state.message}</pre>
        <div class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Close</button></div>`}
    </form>
  </dialog>`;
}

function Elapsed({ since }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((value) => value + 1), 500);
    return () => clearInterval(timer);
  }, []);
  return html`<span aria-hidden="true">${duration(Date.now() - since)}</span>`;
}
