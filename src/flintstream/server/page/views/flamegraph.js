// The flame graph of a vertex: where its subtasks spend their time, as sampled by the slots.
import { percent, time } from "../format.js";
import { Empty, Failure, Loading } from "../parts.js";
import { usePoll } from "../poll.js";
import { html, useState } from "../preact.js";

const KINDS = [["FULL", "All"], ["ON_CPU", "On CPU"], ["OFF_CPU", "Waiting"]];
const NARROWEST = 0.002;

export function FlameGraph({ job, vertex }) {
  const [kind, setKind] = useState("FULL");
  const [subtask, setSubtask] = useState("");
  const [path, setPath] = useState([]); // the indexes of the frame that was chosen
  const place = `/jobs/${job.job_id}/vertices/${vertex.id}/flamegraph?type=${kind}${subtask === "" ? "" : `&subtaskindex=${subtask}`}`;
  const { data, error } = usePoll(place, 4000);
  const choose = (setter) => (value) => {
    setPath([]);
    setter(value);
  };
  return html`<div class="flames">
    <div class="row">
      <div class="switch" role="group" aria-label="Samples">${KINDS.map(([value, text]) => html`<button type="button" aria-pressed=${kind === value} onClick=${() => choose(setKind)(value)}>${text}</button>`)}</div>
      <label class="inline">Subtask <select value=${subtask} onChange=${(event) => choose(setSubtask)(event.target.value)}><option value="">all</option>${vertex.subtasks.map((each) => html`<option value=${String(each.index)}>${each.index}</option>`)}</select></label>
      ${data?.data && html`<span class="soft">sampled at ${time(data.endTimestamp, job.now)}</span>`}
      ${path.length > 0 && html`<button type="button" class="quiet" onClick=${() => setPath([])}>whole graph</button>`}
    </div>
    ${data?.data?.value ? html`<${Flames} root=${data.data} path=${path} setPath=${setPath} />`
      : error ? html`<${Failure} what="There is no flame graph." error=${error} />`
      : data ? html`<${Empty} title="No samples yet."><p>Slots are sampled while this is open; the first answer takes some seconds.</p><//>`
      : html`<${Loading} what="Taking samples" />`}
  </div>`;
}

function Flames({ root, path, setPath }) {
  let top = root;
  const kept = [];
  for (const index of path) {
    if (!top.children?.[index]) break;
    kept.push(index);
    top = top.children[index];
  }
  const rows = [];
  const lay = (frame, left, depth, at) => {
    const width = frame.value / top.value;
    if (width < NARROWEST) return;
    (rows[depth] ??= []).push({ frame, left, width, at });
    let next = left;
    (frame.children ?? []).forEach((child, index) => {
      lay(child, next, depth + 1, [...at, index]);
      next += child.value / top.value;
    });
  };
  lay(top, 0, 0, kept);
  return html`<div class="flamerows" role="list" aria-label="Frames, the outermost first">
    ${rows.map((row, depth) => html`<div class="flamerow" key=${depth}>
      ${row.map(({ frame, left, width, at }) => html`<button type="button" role="listitem" class="flame f${hash(frame.name) % 6}" style=${{ left: `${left * 100}%`, width: `${width * 100}%` }} title=${`${frame.name}: ${percent(frame.value / root.value)}`} onClick=${() => setPath(at)}>${frame.name} <span class="soft">${percent(frame.value / root.value)}</span></button>`)}
    </div>`)}
  </div>`;
}

const hash = (text) => [...text].reduce((value, letter) => (value * 31 + letter.codePointAt(0)) >>> 0, 7);
