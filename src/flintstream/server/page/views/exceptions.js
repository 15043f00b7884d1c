// What has failed: in which operator, with which record, and the program's own traceback.
import { ago, plural, time } from "../format.js";
import { Copy, Empty, Section } from "../parts.js";
import { html } from "../preact.js";
import { href } from "../router.js";

export function Exceptions({ job }) {
  if (!job.exceptions.length) {
    return html`<${Section} title="Exceptions" id="exceptions"><${Empty} title="Nothing has failed." ><p>Failures are listed here with their operator, their record and your traceback.</p><//><//>`;
  }
  return html`<${Section} title=${plural(job.exceptions.length, "exception")} id="exceptions" aside=${html`<span class="soft">restart strategy: ${job.restart_strategy}</span>`}>
    ${job.exceptions.map((each, place) => html`<${Exception} key=${each.timestamp} job=${job} exception=${each} newest=${place === 0} />`)}
  <//>`;
}

function Exception({ job, exception, newest }) {
  const { vertex_id: vertex, operator, subtask } = exception;
  return html`<details class="exception" open=${newest}>
    <summary><span class="what">${exception.exception}</span> <span class="soft">${time(exception.timestamp, job.now)}, ${ago(exception.timestamp, job.now)}</span></summary>
    <dl class="settings">
      ${operator && html`<dt>Operator</dt><dd>${vertex ? html`<a href=${href("jobs", job.job_id, "graph", vertex)}>${operator}</a>` : operator}${subtask !== null && html`, subtask ${subtask}`}</dd>`}
      ${exception.host && html`<dt>Host</dt><dd>${exception.host}</dd>`}
      <dt>Attempt</dt><dd>${exception.attempt}</dd>
      ${exception.record !== null && html`<dt>Record</dt><dd><code class="record">${exception.record}</code></dd>`}
    </dl>
    <div class="trace"><pre tabindex="0" aria-label="Traceback">${exception.stacktrace}</pre><${Copy} text=${exception.stacktrace} what="traceback" /></div>
  </details>`;
}
