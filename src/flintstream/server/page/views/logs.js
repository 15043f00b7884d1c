// The end of what the driver of a job has written.
import { bytes } from "../format.js";
import { Empty, Failure, Loading, Section } from "../parts.js";
import { usePoll } from "../poll.js";
import { html, useEffect, useRef, useState } from "../preact.js";

const BYTES = 131_072;

export function Logs({ job }) {
  const { data, error } = usePoll(`/jobs/${job.job_id}/logs`, 5000);
  const [chosen, setChosen] = useState(null);
  if (!data) return error ? html`<${Failure} what="The logs cannot be shown." error=${error} />` : html`<${Loading} what="Asking for the logs" />`;
  if (!data.logs.length) {
    return html`<${Section} title="Logs" id="logs"><${Empty} title="The server has no logs of this job.">
      <p>Its driver (process ${job.driver_pid} on ${job.driver_host}) was started in a terminal, and writes there. The server keeps the output of jobs that it starts:</p>
      <pre><code>flint run -d job.py</code></pre>
    <//><//>`;
  }
  const name = data.logs.some((log) => log.name === chosen) ? chosen : (data.logs.find((log) => log.size > 0) ?? data.logs[0]).name;
  const choose = html`<div class="switch" role="group" aria-label="File">${data.logs.map((log) => html`<button type="button" aria-pressed=${log.name === name} onClick=${() => setChosen(log.name)}>${log.name} <span class="soft">${bytes(log.size)}</span></button>`)}</div>`;
  return html`<${Section} title="Logs" id="logs" aside=${choose}><${Tail} key=${name} path=${`/jobs/${job.job_id}/logs/${encodeURIComponent(name)}?most=${BYTES}`} name=${name} /><//>`;
}

function Tail({ path, name }) {
  const { data, error } = usePoll(path, 2000, { text: true });
  const [follow, setFollow] = useState(true);
  const box = useRef(null);
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [data, follow]);
  if (data === null) return error ? html`<${Failure} what="The file cannot be shown." error=${error} />` : html`<${Loading} what="Reading" />`;
  return html`
    <pre class="log" ref=${box} tabindex="0" role="log" aria-live="off" aria-label=${`End of ${name}`}>${data || "(empty)"}</pre>
    <label class="check"><input type="checkbox" checked=${follow} onChange=${(event) => setFollow(event.target.checked)} /> Follow the end</label>`;
}
