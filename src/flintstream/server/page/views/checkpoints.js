// Checkpoints: whether they complete, how long they take, what they hold, and how they are configured.
import { bytes, duration, exact, plural, time } from "../format.js";
import { Copy, Empty, Failure, Figure, Loading, Section, Status, Table } from "../parts.js";
import { usePoll } from "../poll.js";
import { html, useState } from "../preact.js";
import { href } from "../router.js";

export function Checkpoints({ job, item }) {
  const { checkpoints } = job;
  const running = checkpoints.history.filter((each) => each.status === "IN_PROGRESS").length;
  if (!checkpoints.enabled && checkpoints.history.length === 0) {
    return html`<${Section} title="Checkpoints" id="checkpoints"><${Empty} title="This job takes no checkpoints.">
      <p>Switch them on in the program, or when it is started:</p>
      <pre><code>flint run -D execution.checkpointing.interval=30s -D execution.checkpointing.dir=file:///… job.py</code></pre>
    <//><//>`;
  }
  const restored = checkpoints.latest_restored;
  return html`
    <${Section} title="Checkpoints" id="checkpoints">
      <dl class="figures small">
        <${Figure} name="Completed" value=${exact(checkpoints.completed)} />
        <${Figure} name="Failed" value=${exact(checkpoints.failed)} level=${checkpoints.failed ? "warn" : ""} />
        <${Figure} name="In progress" value=${exact(running)} />
        <${Figure} name="Restored" value=${exact(checkpoints.restored)} note=${restored ? `${restored.is_savepoint ? "savepoint" : "checkpoint"} ${restored.id ?? ""} at ${time(restored.restore_timestamp, job.now)}` : null} />
      </dl>
      <${Summary} history=${checkpoints.history} />
    <//>
    <${Section} title="History" id="history">
      ${checkpoints.history.length ? html`<${History} job=${job} open=${item === undefined ? null : Number(item)} />` : html`<${Empty} title="No checkpoint was taken yet." ><p>The first is due ${duration(checkpoints.interval)} after the start.</p><//>`}
    <//>
    <${Section} title="Settings" id="settings">
      <dl class="settings">
        <dt>Interval</dt><dd>${checkpoints.interval > 0 ? duration(checkpoints.interval) : "only savepoints"}</dd>
        <dt>Directory</dt><dd>${checkpoints.storage ? html`<code>${checkpoints.storage}</code>` : "memory of the driver: lost when it ends"}</dd>
        <dt>State backend</dt><dd>${checkpoints.state_backend}${checkpoints.incremental ? ", incremental" : ""}</dd>
        <dt>Timeout</dt><dd>${duration(checkpoints.timeout)}</dd>
        <dt>Least pause</dt><dd>${duration(checkpoints.min_pause)}</dd>
        <dt>At the same time</dt><dd>${checkpoints.max_concurrent}</dd>
        <dt>Tolerated failures</dt><dd>${checkpoints.tolerable_failed}</dd>
        <dt>After cancelling</dt><dd>${checkpoints.retained_on_cancellation ? "kept" : "deleted"}</dd>
      </dl>
    <//>`;
}

function Summary({ history }) {
  const done = history.filter((each) => each.status === "COMPLETED");
  if (done.length < 2) return null;
  const line = (name, values, format) => {
    const sorted = [...values].sort((left, right) => left - right);
    const at = (share) => sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
    const mean = sorted.reduce((total, value) => total + value, 0) / sorted.length;
    return html`<tr><th scope="row">${name}</th>${[sorted[0], mean, at(0.5), at(0.9), sorted[sorted.length - 1]].map((value) => html`<td class="number">${format(value)}</td>`)}</tr>`;
  };
  const columns = ["Least", "Mean", "Median", "90%", "Most"].map((name) => ({ name, className: "number" }));
  return html`<${Table} caption=${`The last ${done.length} that completed`} columns=${["", ...columns]} className="compact">
    ${line("End to end", done.map((each) => each.end_to_end_duration), duration)}
    ${line("Stored", done.map((each) => each.checkpointed_size), bytes)}
    ${line("Whole state", done.map((each) => each.state_size), bytes)}
  <//>`;
}

const COLUMNS = [
  { name: "Id", className: "number" }, "Kind", "State", { name: "Triggered", className: "number" }, { name: "Took", className: "number" },
  { name: "Stored", className: "number" }, { name: "Whole state", className: "number" }, "Where",
];

function History({ job, open }) {
  const shown = job.checkpoints.history.find((each) => each.checkpoint_id === open);
  return html`<${Table} caption="Checkpoints and savepoints, the newest first" hidden=${true} columns=${COLUMNS}>
    ${job.checkpoints.history.map((each) => html`<${Line} key=${each.checkpoint_id} job=${job} checkpoint=${each} open=${each === shown} />`)}
  <//>`;
}

function Line({ job, checkpoint, open }) {
  const id = checkpoint.checkpoint_id;
  const completed = checkpoint.status === "COMPLETED";
  return html`
    <tr class=${open ? "open" : ""}>
      <th scope="row" class="number"><a href=${open ? href("jobs", job.job_id, "checkpoints") : href("jobs", job.job_id, "checkpoints", id)} aria-expanded=${open} aria-label=${`details of ${id}`}>${id}</a></th>
      <td>${checkpoint.is_savepoint ? "savepoint" : "checkpoint"}</td>
      <td><${Status} value=${checkpoint.status} />${checkpoint.discarded && html` <span class="soft">replaced</span>`}</td>
      <td class="number">${time(checkpoint.trigger_timestamp, job.now)}</td>
      <td class="number">${checkpoint.status === "IN_PROGRESS" ? `${duration(job.now - checkpoint.trigger_timestamp)} so far` : completed ? duration(checkpoint.end_to_end_duration) : "–"}</td>
      <td class="number">${completed ? bytes(checkpoint.checkpointed_size) : "–"}</td>
      <td class="number">${completed ? bytes(checkpoint.state_size) : "–"}</td>
      <td>${checkpoint.failure_message ? html`<span class="bad">${checkpoint.failure_message}</span>` : checkpoint.external_path ? html`<code class="clip" title=${checkpoint.external_path}>${checkpoint.external_path}</code> <${Copy} text=${checkpoint.external_path} what="path" />` : ""}</td>
    </tr>
    ${open && html`<tr class="inner"><td colspan=${COLUMNS.length}><${Shares} job=${job} checkpoint=${checkpoint} /></td></tr>`}`;
}

const SHARES = ["Ended after", "Stored", "Whole state", "Snapshot", "Upload"].map((name) => ({ name, className: "number" }));

function Shares({ job, checkpoint }) {
  const [vertex, setVertex] = useState(job.vertices[0]?.vertex_id);
  const { data, error } = usePoll(vertex ? `/jobs/${job.job_id}/checkpoints/details/${checkpoint.checkpoint_id}/subtasks/${vertex}` : null, 0);
  return html`<div class="shares">
    <p><label class="inline">Vertex <select value=${vertex} onChange=${(event) => setVertex(event.target.value)}>${job.vertices.map((each) => html`<option value=${each.vertex_id}>${each.name}</option>`)}</select></label>
      <span class="soft"> of ${plural(job.vertices.length, "vertex").replace("vertexs", "vertices")}, at epoch ${exact(checkpoint.epoch)}</span></p>
    ${data ? html`<${Table} caption="Subtasks in this checkpoint" hidden=${true} className="compact" columns=${[{ name: "Subtask", className: "number" }, "State", ...SHARES]}>
      ${data.subtasks.map((each) => html`<tr key=${each.index}>
        <th scope="row" class="number">${each.index}</th><td>${each.status}</td>
        <td class="number">${each.end_to_end_duration === undefined ? "–" : duration(each.end_to_end_duration)}</td>
        <td class="number">${bytes(each.checkpointed_size)}</td><td class="number">${bytes(each.state_size)}</td>
        <td class="number">${duration(each.checkpoint?.sync)}</td><td class="number">${duration(each.checkpoint?.async)}</td></tr>`)}
    <//>` : error ? error.status === 404 ? html`<p class="soft">The shares of its subtasks are not known any more.</p>` : html`<${Failure} what="The checkpoint cannot be shown." error=${error} />` : html`<${Loading} what="Asking for the checkpoint" />`}
  </div>`;
}
