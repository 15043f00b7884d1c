// A job: its state, what to know about it, and a tab for each concern.
import { Actions } from "../actions.js";
import { ago, bytes, duration, exact, plural, rate } from "../format.js";
import { failedInARow, findings, graphOf, isEnded, latestCheckpoint, readPerSecond, writtenPerSecond } from "../model.js";
import { announce, Copy, Failure, Figure, Loading, Status, Ticking } from "../parts.js";
import { usePoll } from "../poll.js";
import { html, useEffect, useMemo, useRef } from "../preact.js";
import { href } from "../router.js";
import { Charts } from "./charts.js";
import { Checkpoints } from "./checkpoints.js";
import { Configuration } from "./configuration.js";
import { Exceptions } from "./exceptions.js";
import { Graph } from "./graph.js";
import { Latency } from "./latency.js";
import { Logs } from "./logs.js";
import { Timeline } from "./timeline.js";
import { Vertex } from "./vertex.js";

const TABS = [
  ["graph", "Graph"], ["checkpoints", "Checkpoints"], ["exceptions", "Exceptions"], ["timeline", "Timeline"],
  ["configuration", "Configuration"], ["logs", "Logs"],
];

export function Job({ id, tab, item, features }) {
  const { data: job, error, at, ask } = usePoll(`/jobs/${id}/details`, 2000);
  const graph = useMemo(() => (job ? graphOf(job) : null), [job]);
  useChange(job);
  useEffect(() => {
    document.title = job ? `${job.name} · ${job.status.toLowerCase()} · Flintstream` : "Job · Flintstream";
  }, [job?.name, job?.status]);
  if (!job) {
    return error
      ? html`<${Failure} what=${error.status === 404 ? "There is no such job." : "The job cannot be shown."} error=${error} /><p><a href=${href()}>All jobs</a></p>`
      : html`<${Loading} what="Asking for the job" />`;
  }
  return html`
    <${Heading} job=${job} at=${at} features=${features} ask=${ask} />
    <${Figures} job=${job} graph=${graph} />
    <${Findings} job=${job} graph=${graph} />
    <nav class="tabs" aria-label="Job">
      ${TABS.map(([name, text]) => html`<a href=${href("jobs", id, name)} aria-current=${tab === name ? "page" : undefined}>${text}${name === "exceptions" && job.exceptions.length > 0 && html`<span class="badge">${job.exceptions.length}</span>`}</a>`)}
    </nav>
    ${tab === "checkpoints" ? html`<${Checkpoints} job=${job} item=${item} />`
      : tab === "exceptions" ? html`<${Exceptions} job=${job} />`
      : tab === "timeline" ? html`<${Timeline} job=${job} graph=${graph} />`
      : tab === "configuration" ? html`<${Configuration} job=${job} />`
      : tab === "logs" ? html`<${Logs} job=${job} />`
      : html`
        <${Graph} job=${job} graph=${graph} selected=${item} />
        ${item && graph.byId.has(item) && html`<${Vertex} key=${item} job=${job} vertex=${graph.byId.get(item)} />`}
        <${Latency} job=${job} />
        <${Charts} job=${job} />
      `}
  `;
}

function Heading({ job, at, features, ask }) {
  const ended = isEnded(job.status);
  return html`<div class="heading">
    <div>
      <h1>${job.name}</h1>
      <p class="under">
        <${Status} value=${job.status} />
        <span>${ended ? "ran for " : "for "}<${Ticking} since=${job.start_time} now=${job.now} at=${at} ended=${ended ? job.end_time : null} /></span>
        <span class="soft">parallelism ${job.parallelism}</span>
        <span class="soft id"><code title=${job.job_id}>${job.job_id}</code> <${Copy} text=${job.job_id} what="job id" /></span>
        ${job.phase && html`<span class="phase">${job.phase} …</span>`}
      </p>
    </div>
    <${Actions} job=${job} features=${features} ask=${ask} ended=${ended} />
  </div>`;
}

function Figures({ job, graph }) {
  const checkpoint = latestCheckpoint(job);
  const last = (name) => {
    const values = job.history[name] ?? [];
    return values.length ? values[values.length - 1] : null;
  };
  const ended = isEnded(job.status);
  const busiest = graph.vertices.reduce((found, each) => (found && found.busy >= each.busy ? found : each), null);
  return html`<dl class="figures">
    <${Figure} name="Read" value=${ended ? "–" : rate(readPerSecond(graph))} />
    <${Figure} name="Written" value=${ended ? "–" : rate(writtenPerSecond(graph))} />
    <${Figure} name="Busiest vertex" value=${ended || !busiest ? "–" : `${Math.round(busiest.busy * 100)}%`} level=${graph.bottleneck ? "warn" : ""} note=${ended ? null : busiest?.name} />
    <${Figure} name="Watermark lag" value=${ended ? "–" : duration(last("watermarkLagMs"))} />
    <${Figure} name="State" value=${bytes(last("stateSize"))} />
    <${Figure} name="Epoch" value=${duration(last("epochDurationMs"))} note=${job.metrics.numEpochs != null ? plural(job.metrics.numEpochs, "epoch") : null} />
    <${Figure} name="Last checkpoint" value=${!job.checkpoints.enabled ? "off" : checkpoint ? ago(checkpoint.latest_ack_timestamp, job.now) : "none yet"}
      note=${checkpoint ? `${duration(checkpoint.end_to_end_duration)}, ${bytes(checkpoint.state_size)}` : null} level=${failedInARow(job) ? "bad" : ""} />
    <${Figure} name="Restarts" value=${exact(job.restarts)} level=${job.restarts ? "warn" : ""} />
  </dl>`;
}

function Findings({ job, graph }) {
  const found = findings(job, graph);
  if (!found.length) return null;
  return html`<ul class="findings" aria-label="What to look at">
    ${found.map((each) => html`<li class=${each.level}><a href=${each.vertex ? href("jobs", job.job_id, "graph", each.vertex) : href("jobs", job.job_id, each.tab)}>${each.text}</a></li>`)}
  </ul>`;
}

// Says that the job has changed its state since the page last asked.
function useChange(job) {
  const before = useRef(null);
  useEffect(() => {
    if (!job) return;
    const now = `${job.status} ${job.restarts}`;
    if (before.current !== null && before.current !== now) {
      announce(`${job.name} is ${job.status.toLowerCase()}${job.restarts ? `, ${plural(job.restarts, "restart")}` : ""}`);
    }
    before.current = now;
  }, [job]);
}
