// The metrics of a vertex by name: a value for each subtask, and a chart of those seen since it was chosen.
import { count, exact } from "../format.js";
import { Table } from "../parts.js";
import { html, useEffect, useMemo, useRef, useState } from "../preact.js";
import { Chart } from "./charts.js";

const MOST_SAMPLES = 300;

// Returns [{name, values}] with a value for each subtask: of the task, of its operators, and of user functions.
function metricsOf(vertex) {
  const names = new Map(vertex.operators.map((operator) => [operator.operator_id, operator.name]));
  const found = new Map();
  const put = (name, index, value) => {
    if (!found.has(name)) found.set(name, vertex.subtasks.map(() => null));
    found.get(name)[index] = value;
  };
  vertex.subtasks.forEach((subtask, index) => {
    for (const [name, value] of Object.entries(subtask.metrics)) put(name, index, value);
    for (const [id, metrics] of Object.entries(subtask.operator_metrics ?? {})) {
      for (const [name, value] of Object.entries(metrics)) put(`${names.get(id) ?? id}.${name}`, index, value);
    }
    for (const metric of subtask.user_metrics ?? []) {
      const label = `${names.get(metric.operator_id) ?? metric.operator_id}.${metric.name}`;
      if (metric.value !== null && typeof metric.value === "object") {
        for (const [part, value] of Object.entries(metric.value)) put(`${label}.${part}`, index, value);
      } else {
        put(label, index, metric.value);
      }
    }
  });
  return [...found].map(([name, values]) => ({ name, values })).sort((left, right) => left.name.localeCompare(right.name));
}

const shown = (value) => (typeof value === "number" ? (Math.abs(value) > 1e15 ? "none" : Number.isInteger(value) ? exact(value) : count(value)) : value == null ? "–" : String(value));
const plottable = (value) => typeof value === "number" && Math.abs(value) < 1e15;

export function Metrics({ job, vertex }) {
  const all = useMemo(() => metricsOf(vertex), [vertex]);
  const [words, setWords] = useState("");
  const [chosen, setChosen] = useState(null);
  const found = all.filter((metric) => metric.name.toLowerCase().includes(words.toLowerCase()));
  return html`<div class="metrics">
    <label class="filter">Find a metric <input type="search" value=${words} onInput=${(event) => setWords(event.target.value)} placeholder="busy, late, my counter" /></label>
    ${chosen && html`<${Samples} key=${chosen} name=${chosen} metric=${all.find((metric) => metric.name === chosen)} now=${job.now} />`}
    <${Table} caption=${`Metrics of ${vertex.name}, a column for each subtask`} hidden=${true} className="compact" columns=${["Metric", ...vertex.subtasks.map((subtask) => ({ name: `${subtask.index}`, className: "number" }))]}>
      ${found.map((metric) => html`<tr key=${metric.name}>
        <th scope="row"><button type="button" class="link" aria-pressed=${chosen === metric.name} disabled=${!metric.values.some(plottable)} onClick=${() => setChosen(chosen === metric.name ? null : metric.name)}>${metric.name}</button></th>
        ${metric.values.map((value) => html`<td class="number">${shown(value)}</td>`)}
      </tr>`)}
    <//>
    ${found.length === 0 && html`<p class="soft">No metric has “${words}” in its name.</p>`}
  </div>`;
}

// Flink's API has no past values of metrics; the page keeps those that it sees.
function Samples({ name, metric, now }) {
  const kept = useRef([]);
  const [, redraw] = useState(0);
  useEffect(() => {
    if (!metric) return;
    const last = kept.current[kept.current.length - 1];
    if (last && last.now === now) return;
    kept.current = [...kept.current, { now, values: metric.values.filter(plottable) }].slice(-MOST_SAMPLES);
    redraw((value) => value + 1);
  }, [now]);
  const samples = kept.current.filter((sample) => sample.values.length);
  const times = useMemo(() => samples.map((sample) => sample.now), [samples.length, now]);
  const most = useMemo(() => samples.map((sample) => Math.max(...sample.values)), [samples.length, now]);
  const least = useMemo(() => samples.map((sample) => Math.min(...sample.values)), [samples.length, now]);
  return html`<div class="charts one"><${Chart} title=${name} format=${count} times=${times} series=${[{ label: "highest subtask", values: most }, { label: "lowest", values: least }]} /></div>`;
}
