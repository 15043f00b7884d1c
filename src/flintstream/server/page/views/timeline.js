// When the job and its vertices were in which state, with failures and savepoints.
import { duration, time } from "../format.js";
import { isEnded } from "../model.js";
import { Section, Status, Table, tone } from "../parts.js";
import { html } from "../preact.js";

const words = (status) => status.toLowerCase().replace("_", " ");

// The states by when they were last entered, each with how long it has lasted.
function stays(timestamps, until) {
  const entered = Object.entries(timestamps).filter(([, at]) => at > 0).sort(([, left], [, right]) => left - right);
  return entered.map(([status, from], place) => ({ status, from, to: Math.max(from, entered[place + 1]?.[1] ?? until) }));
}

// Of a job that was restarted, only the last time in each state is known: before its last failure it ran, too.
function withEarlierAttempts(all, restarts) {
  const failed = all.findIndex((each) => each.status === "RESTARTING" || each.status === "FAILING");
  if (!restarts || failed < 1) return all;
  const before = all[failed - 1];
  return before.status === "RUNNING" ? all : all.map((each) => (each === before ? { ...each, status: "EARLIER_ATTEMPTS" } : each));
}

export function Timeline({ job, graph }) {
  const until = isEnded(job.status) && job.end_time > 0 ? job.end_time : job.now;
  const states = withEarlierAttempts(stays(job.timestamps, until), job.restarts);
  const from = Math.min(job.start_time, ...states.map((each) => each.from));
  const rows = graph.vertices.map((vertex) => ({ name: vertex.name, stays: stays(vertex.subtasks[0]?.timestamps ?? {}, until) }));
  const events = [
    ...job.exceptions.map((each) => ({ at: each.timestamp, kind: "failure", text: each.exception })),
    ...job.checkpoints.history.filter((each) => each.is_savepoint).map((each) => ({ at: each.trigger_timestamp, kind: "savepoint", text: `savepoint ${each.checkpoint_id}` })),
    ...job.checkpoints.history.filter((each) => each.status === "FAILED").map((each) => ({ at: each.trigger_timestamp, kind: "failed checkpoint", text: `checkpoint ${each.checkpoint_id}` })),
  ].filter((each) => each.at >= from && each.at <= until).sort((left, right) => right.at - left.at);
  return html`
    <${Section} title="Timeline" id="timeline">
      <div class="timeline">
        <${Row} name="Job" stays=${states} from=${from} until=${until} events=${events} />
        ${rows.map((row) => html`<${Row} ...${row} from=${from} until=${until} events=${[]} />`)}
        <div class="scale" aria-hidden="true"><span>${time(from, job.now)}</span><span>${time((from + until) / 2, job.now)}</span><span>${time(until, job.now)}</span></div>
      </div>
    <//>
    <${Section} title="States" id="states">
      <${Table} caption="When the job last entered each state" hidden=${true} columns=${["State", { name: "Since", className: "number" }, { name: "For", className: "number" }]}>
        ${[...states].reverse().map((each) => html`<tr key=${each.status}><th scope="row"><${Status} value=${each.status} /></th><td class="number">${time(each.from, job.now)}</td><td class="number">${duration(each.to - each.from)}</td></tr>`)}
      <//>
    <//>
    ${events.length > 0 && html`<${Section} title="Events" id="events">
      <${Table} caption="Failures and savepoints" hidden=${true} columns=${[{ name: "When", className: "number" }, "What", ""]}>
        ${events.map((each) => html`<tr><th scope="row" class="number">${time(each.at, job.now)}</th><td class=${each.kind === "savepoint" ? "" : "bad"}>${each.kind}</td><td>${each.text}</td></tr>`)}
      <//>
    <//>`}`;
}

function Row({ name, stays: all, from, until, events }) {
  const span = Math.max(1, until - from);
  const place = (at) => `${((at - from) / span) * 100}%`;
  const label = all.map((each) => `${words(each.status)} for ${duration(each.to - each.from)}`).join(", ");
  return html`<div class="lane">
    <span class="clip" title=${name}>${name}</span>
    <span class="track" role="img" aria-label=${`${name}: ${label}`}>
      ${all.map((each) => html`<span class="stay ${tone(each.status)} ${each.status.toLowerCase()}" style=${{ left: place(each.from), width: `${((each.to - each.from) / span) * 100}%` }} title=${`${words(each.status)}, ${duration(each.to - each.from)}`}></span>`)}
      ${events.map((each) => html`<span class="event ${each.kind === "savepoint" ? "savepoint" : "failure"}" style=${{ left: place(each.at) }} title=${`${each.kind}: ${each.text}`}></span>`)}
    </span>
  </div>`;
}
