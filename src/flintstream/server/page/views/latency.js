// How long records take from each source to each operator, as latency markers tell.
import { duration, exact } from "../format.js";
import { latenciesOf } from "../model.js";
import { Section, Table } from "../parts.js";
import { html, useMemo } from "../preact.js";
import { href } from "../router.js";

const PERCENTILES = [["median", "p50"], ["p95", "p95"], ["p99", "p99"]];
const COLUMNS = ["Operator", "From", ...PERCENTILES.map(([, name]) => ({ name, className: "number" })), { name: "Markers", className: "number", title: "received by all subtasks" }];

export function Latency({ job }) {
  const found = useMemo(() => latenciesOf(job), [job]);
  if (!found.length) return null;
  return html`<${Section} title="Latency" id="latency" aside=${html`<span class="soft">of the slowest subtask, over its last markers</span>`}>
    <${Table} caption="Latency from sources to operators" hidden=${true} columns=${COLUMNS}>
      ${found.map((each) => html`<tr key=${each.key}>
        <th scope="row"><a href=${href("jobs", job.job_id, "graph", each.vertex)}>${each.operator}</a></th>
        <td>${each.source}</td>
        ${PERCENTILES.map(([statistic]) => html`<td class="number">${duration(each[statistic])}</td>`)}
        <td class="number">${exact(each.count)}</td>
      </tr>`)}
    <//>
  <//>`;
}
