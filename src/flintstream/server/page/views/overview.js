// All jobs: which run, whether they are well, and what has ended.
import { ago, bytes, count, duration, exact, percent, plural, rate, time } from "../format.js";
import { isEnded } from "../model.js";
import { announce, Empty, Failure, Figure, Loading, Section, Spark, Status, Table, Ticking } from "../parts.js";
import { usePoll } from "../poll.js";
import { html, useEffect, useRef } from "../preact.js";
import { href } from "../router.js";

export function Overview({ features }) {
  const { data, error, at } = usePoll("/page/jobs", 2000);
  const { data: cluster } = usePoll("/overview", 5000);
  useChanges(data?.jobs);
  useEffect(() => {
    document.title = "Jobs · Flintstream";
  }, []);
  if (data === null) return error ? html`<${Failure} what="The jobs cannot be shown." error=${error} />` : html`<${Loading} what="Asking for the jobs" />`;
  const running = data.jobs.filter((job) => !isEnded(job.status));
  const ended = data.jobs.filter((job) => isEnded(job.status));
  const known = (name) => running.reduce((sum, job) => sum + (job[name] ?? 0), 0);
  const failed = ended.filter((job) => job.status === "FAILED").length;
  return html`
    <div class="heading"><h1>Jobs</h1>${features.submit && html`<a class="button primary" href=${href("submit")}>Submit a job</a>`}</div>
    <dl class="figures">
      <${Figure} name="Running" value=${exact(running.length)} />
      <${Figure} name="Failed" value=${exact(failed)} level=${failed ? "bad" : ""} />
      <${Figure} name="Finished" value=${exact(ended.filter((job) => job.status === "FINISHED").length)} />
      <${Figure} name="Cancelled" value=${exact(ended.filter((job) => job.status === "CANCELED").length)} />
      <${Figure} name="Records read" value=${rate(known("records_in_per_second"))} />
      <${Figure} name="Slots" value=${exact(known("slots"))} note=${cluster ? `of ${plural(cluster.taskmanagers, "process")}`.replace("processs", "processes") : null} />
      <${Figure} name="Memory of slots" value=${bytes(known("memory"))} />
    </dl>
    <${Section} title="Running" id="running">
      ${running.length
        ? html`<${Table} caption="Running jobs" hidden=${true} className="jobs" columns=${RUNNING}>${running.map((job) => html`<${RunningLine} key=${job.id} job=${job} at=${at} />`)}<//>`
        : html`<${Empty} title="No job runs.">
            <p>Start one from a terminal, and it appears here:</p>
            <pre><code>flint run -d job.py</code></pre>
            ${features.submit && html`<p>Or <a href=${href("submit")}>submit a program</a> from this page.</p>`}
          <//>`}
    <//>
    ${ended.length > 0 && html`<${Section} title="Ended" id="ended">
      <${Table} caption="Ended jobs" hidden=${true} className="jobs" columns=${ENDED}>${ended.map((job) => html`<${EndedLine} key=${job.id} job=${job} />`)}<//>
    <//>`}
  `;
}

const NUMBER = "number";
const RUNNING = [
  "Job", "State", { name: "For", className: NUMBER }, { name: "Parallelism", className: NUMBER }, { name: "Records/s", className: NUMBER },
  "Busiest vertex", { name: "Lag", title: "How far the watermark is behind the clock", className: NUMBER }, "Last checkpoint", { name: "Restarts", className: NUMBER },
];
const ENDED = ["Job", "State", { name: "Ended", className: NUMBER }, { name: "Ran for", className: NUMBER }, { name: "Restarts", className: NUMBER }, "Failure"];

function RunningLine({ job, at }) {
  const now = at;
  return html`<tr>
    <th scope="row"><a href=${href("jobs", job.id)}>${job.name}</a>${job.phase && html`<small>${job.phase}</small>`}</th>
    <td data-label="State"><${Status} value=${job.status} /></td>
    <td class="number" data-label="For"><${Ticking} since=${job.start_time} now=${now} at=${at} /></td>
    <td class="number" data-label="Parallelism">${exact(job.parallelism)}</td>
    <td class="number withspark" data-label="Records/s">${job.records_in && html`<${Spark} values=${job.records_in} label="records a second over time" />`}${count(job.records_in_per_second)}</td>
    <td data-label="Busiest">${job.busiest && html`<span class="busiest"><span class="meter ${level(job)}" aria-hidden="true"><span style=${{ width: percent(job.busiest.busy) }}></span></span>${percent(job.busiest.busy)} <span class="soft clip" title=${job.busiest.name}>${job.busiest.name}</span></span>`}</td>
    <td class="number" data-label="Lag">${duration(job.watermark_lag)}</td>
    <td data-label="Checkpoint"><${Checkpoint} job=${job} now=${now} /></td>
    <td class="number ${job.restarts ? "warn" : ""}" data-label="Restarts">${exact(job.restarts)}</td>
  </tr>`;
}

const level = (job) => (job.busiest.busy >= 0.9 || job.back_pressured > 0.5 ? "hot" : "");

function Checkpoint({ job, now }) {
  if (job.checkpoints_enabled === false) return html`<span class="soft">off</span>`;
  if (job.failed_checkpoints > 0) return html`<span class="bad">${plural(job.failed_checkpoints, "failure")} in a row</span>`;
  if (!job.checkpoint) return html`<span class="soft">none yet</span>`;
  return html`${ago(job.checkpoint.time, now)} <span class="soft">${duration(job.checkpoint.duration)}, ${bytes(job.checkpoint.size)}</span>`;
}

function EndedLine({ job }) {
  return html`<tr>
    <th scope="row"><a href=${href("jobs", job.id)}>${job.name}</a></th>
    <td data-label="State"><${Status} value=${job.status} /></td>
    <td class="number" data-label="Ended">${time(job.end_time)}</td>
    <td class="number" data-label="Ran for">${duration(job.end_time - job.start_time)}</td>
    <td class="number" data-label="Restarts">${exact(job.restarts)}</td>
    <td data-label="Failure">${job.status === "FAILED" && job.exception ? html`<span class="bad clip" title=${job.exception}>${job.exception}</span>` : ""}</td>
  </tr>`;
}

// Says which jobs have changed their state since the page last asked.
function useChanges(jobs) {
  const before = useRef(null);
  useEffect(() => {
    if (!jobs) return;
    const states = new Map(jobs.map((job) => [job.id, job.status]));
    if (before.current) {
      const changed = jobs.filter((job) => before.current.get(job.id) !== job.status);
      if (changed.length) announce(changed.map((job) => `${job.name} is ${job.status.toLowerCase()}`).join(". "));
    }
    before.current = states;
  }, [jobs]);
}
