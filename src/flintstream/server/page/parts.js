// Small parts that several views are made of.
import { duration, percent } from "./format.js";
import { html, useEffect, useState } from "./preact.js";

const TONES = {
  RUNNING: "ok", FINISHED: "done", CANCELED: "done", FAILED: "bad", FAILING: "bad", RESTARTING: "warn", CANCELLING: "warn",
  CANCELING: "warn", SUSPENDED: "warn", COMPLETED: "ok", IN_PROGRESS: "warn",
};

export const tone = (status) => TONES[status] ?? "wait";

export function Status({ value }) {
  return html`<span class="status ${tone(value)}"><span class="dot" aria-hidden="true"></span>${value.replace("_", " ").toLowerCase()}</span>`;
}

// A number with its name.
export function Figure({ name, value, note, level, children }) {
  return html`<div class="figure ${level ?? ""}">
    <dt>${name}</dt>
    <dd>${value}${note && html`<small>${note}</small>`}${children}</dd>
  </div>`;
}

// How a subtask or vertex has spent its time, as a bar; the text says the same.
export function TimeBar({ busy, held, idle, text = false }) {
  const label = `busy ${percent(busy)}, back-pressured ${percent(held)}, idle ${percent(idle)}`;
  return html`<span class="timebar" role=${text ? undefined : "img"} aria-label=${text ? undefined : label} title=${label}>
    <span class="bar" aria-hidden="true">
      <span class="busy" style=${{ width: `${busy * 100}%` }}></span><span class="held" style=${{ width: `${held * 100}%` }}></span>
    </span>
    ${text && html`<span class="percents"><b>${percent(busy)}</b> busy <b>${percent(held)}</b> held <b>${percent(idle)}</b> idle</span>`}
  </span>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p class="title">${title}</p>${children}</div>`;
}

export function Failure({ error, what }) {
  return html`<div class="empty bad" role="alert"><p class="title">${what}</p><p>${error.message}</p></div>`;
}

export function Loading({ what }) {
  return html`<div class="empty loading" role="status">${what} …</div>`;
}

// A table that scrolls by itself where it is too wide, also by keyboard.
export function Table({ caption, columns, children, hidden = false, className = "" }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table class=${className}>
      <caption class=${hidden ? "unseen" : ""}>${caption}</caption>
      <thead><tr>${columns.map((column) => html`<th scope="col" class=${column.className ?? ""} title=${column.title}>${column.name ?? column}</th>`)}</tr></thead>
      <tbody>${children}</tbody>
    </table>
  </div>`;
}

export function Section({ title, children, aside, id }) {
  return html`<section class="card" aria-labelledby=${id}>
    <header><h2 id=${id}>${title}</h2>${aside}</header>
    ${children}
  </section>`;
}

// A duration that goes on while the page is looked at.
export function Ticking({ since, now, at, ended }) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (ended) return undefined;
    const timer = setInterval(() => document.hidden || tick((value) => value + 1), 1000);
    return () => clearInterval(timer);
  }, [ended]);
  return html`<span>${duration(ended ? ended - since : now + (Date.now() - at) - since)}</span>`;
}

export function Copy({ text, what }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  if (!navigator.clipboard) return null; // As on a page that came without TLS from another machine.
  return html`<button type="button" class="quiet" onClick=${copy} aria-label=${`copy ${what}`}>${copied ? "copied" : "copy"}</button>`;
}

// A line of values without axes.
export function Spark({ values, label }) {
  const known = values.filter((value) => typeof value === "number");
  if (known.length < 2) return null;
  const most = Math.max(...known, 1e-9);
  const points = values.map((value, place) => `${((place / (values.length - 1)) * 100).toFixed(1)},${(23 - ((value ?? 0) / most) * 21).toFixed(1)}`);
  return html`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label=${label}>
    <polygon points=${`0,24 ${points.join(" ")} 100,24`} /><polyline points=${points.join(" ")} />
  </svg>`;
}

const announced = { element: null };

// Tells readers of the screen what has changed.
export function announce(text) {
  if (announced.element) announced.element.textContent = text;
}

export function LiveRegion() {
  return html`<div class="unseen" role="status" aria-live="polite" ref=${(element) => { announced.element = element; }}></div>`;
}
