// A vertex: its subtasks side by side, its metrics, and where its time goes.
import { bytes, count, duration, exact, percent, rate, time } from "../format.js";
import { hasWatermark, isEnded, isLastWatermark, shares, skewOf, watermarkOf } from "../model.js";
import { Figure, Section, Status, Table, TimeBar } from "../parts.js";
import { html, useEffect, useRef, useState } from "../preact.js";
import { href } from "../router.js";
import { FlameGraph } from "./flamegraph.js";
import { watermarkText } from "./graph.js";
import { Metrics } from "./metrics.js";

const PARTS = [["subtasks", "Subtasks"], ["metrics", "Metrics"], ["flamegraph", "Flame graph"], ["operators", "Operators"]];

export function Vertex({ job, vertex }) {
  const [part, setPart] = useState("subtasks");
  const panel = useRef(null);
  useEffect(() => {
    panel.current.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    panel.current.focus({ preventScroll: true });
  }, []);
  const close = html`<a class="button quiet" href=${href("jobs", job.job_id)} aria-label="close the vertex">close</a>`;
  return html`<div ref=${panel} tabindex="-1" class="panel">
    <${Section} title=${vertex.name} id="vertex" aside=${close}>
      <dl class="figures small">
        <${Figure} name="Busy" value=${isEnded(job.status) ? "–" : percent(vertex.busy)} level=${vertex.isBottleneck ? "warn" : ""} note=${vertex.isBottleneck ? "bottleneck" : null} />
        <${Figure} name="Back-pressured" value=${isEnded(job.status) ? "–" : percent(vertex.mostHeld)} note=${pressure(vertex.mostHeld)} />
        <${Figure} name="Records in" value=${count(vertex.recordsIn)} note=${rate(vertex.rateIn)} />
        <${Figure} name="Records out" value=${count(vertex.recordsOut)} note=${rate(vertex.rateOut)} />
        <${Figure} name="Bytes in" value=${bytes(vertex.bytesIn)} note=${`out ${bytes(vertex.bytesOut)}`} />
        <${Figure} name="Watermark" value=${watermarkText(vertex)} note=${hasWatermark(vertex.watermark) ? time(vertex.watermark, job.now) : null} />
        <${Figure} name="Skew" value=${percent(vertex.skew)} note=${vertex.isSkewed ? "subtasks differ" : "even"} level=${vertex.isSkewed ? "warn" : ""} />
        <${Figure} name="Parallelism" value=${exact(vertex.parallelism)} note=${`at most ${vertex.max_parallelism}`} />
      </dl>
      <div class="switch" role="group" aria-label="Show of this vertex">
        ${PARTS.map(([name, text]) => html`<button type="button" aria-pressed=${part === name} onClick=${() => setPart(name)}>${text}</button>`)}
      </div>
      ${part === "subtasks" && html`<${Subtasks} job=${job} vertex=${vertex} />`}
      ${part === "metrics" && html`<${Metrics} job=${job} vertex=${vertex} />`}
      ${part === "flamegraph" && html`<${FlameGraph} job=${job} vertex=${vertex} />`}
      ${part === "operators" && html`<${Operators} vertex=${vertex} />`}
    <//>
  </div>`;
}

// Flink's levels.
const pressure = (share) => (share > 0.5 ? "high" : share > 0.1 ? "low" : "ok");

const COLUMNS = [
  { name: "Subtask", className: "number" }, "State", "Time", { name: "Records in", className: "number" }, "", { name: "Records out", className: "number" },
  { name: "Bytes in", className: "number" }, { name: "Bytes out", className: "number" }, { name: "Watermark", className: "number" }, "Slot",
];

function Subtasks({ job, vertex }) {
  const most = Math.max(1, ...vertex.subtasks.map((each) => Number(each.metrics.numRecordsIn ?? 0)));
  const ended = isEnded(job.status);
  const skew = skewOf(vertex.subtasks.map((each) => Number(each.metrics.numRecordsIn ?? 0)));
  return html`<${Table} caption=${`Subtasks of ${vertex.name}; they differ by ${percent(skew)} in records`} hidden=${true} columns=${COLUMNS}>
    ${vertex.subtasks.map((subtask) => {
      const watermark = watermarkOf(subtask, vertex);
      const slot = job.slots[subtask.slot];
      return html`<tr key=${subtask.index}>
        <th scope="row" class="number">${subtask.index}</th>
        <td><${Status} value=${subtask.status} /></td>
        <td>${ended ? "–" : html`<${TimeBar} ...${shares(subtask)} text=${true} />`}</td>
        <td class="number">${exact(subtask.metrics.numRecordsIn)}<small>${rate(subtask.metrics.numRecordsInPerSecond)}</small></td>
        <td><span class="meter" aria-hidden="true"><span style=${{ width: `${(Number(subtask.metrics.numRecordsIn ?? 0) / most) * 100}%` }}></span></span></td>
        <td class="number">${exact(subtask.metrics.numRecordsOut)}<small>${rate(subtask.metrics.numRecordsOutPerSecond)}</small></td>
        <td class="number">${bytes(subtask.metrics.numBytesIn)}</td>
        <td class="number">${bytes(subtask.metrics.numBytesOut)}</td>
        <td class="number">${isLastWatermark(watermark) ? "end" : hasWatermark(watermark) ? `${duration(job.now - watermark)} behind` : "–"}</td>
        <td>${subtask.slot}${slot && html` <span class="soft">${slot.host}, process ${slot.pid}</span>`}</td>
      </tr>`;
    })}
  <//>`;
}

function Operators({ vertex }) {
  return html`<${Table} caption="Operators of the chain" hidden=${true} columns=${["Operator", "uid", "Id"]}>
    ${vertex.operators.map((operator) => html`<tr key=${operator.operator_id}><th scope="row">${operator.name}</th><td>${operator.uid ? html`<code>${operator.uid}</code>` : html`<span class="soft">none</span>`}</td><td><code>${operator.operator_id}</code></td></tr>`)}
  <//>`;
}
