// The graph of a job: vertices coloured by how busy they are, edges with what flows over them; or the same as a table.
import { bytes, count, duration, exact, percent, rate } from "../format.js";
import { arrange } from "../layout.js";
import { hasWatermark, isEnded, isLastWatermark } from "../model.js";
import { Empty, Section, Status, Table, TimeBar } from "../parts.js";
import { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../preact.js";
import { href } from "../router.js";

const NARROW = 640;
const TALLEST = 620;
const NEAREST = 1.6;

export function Graph({ job, graph, selected }) {
  const [asTable, setAsTable] = useState(false);
  const choose = html`<div class="switch" role="group" aria-label="Show as">
    <button type="button" aria-pressed=${!asTable} onClick=${() => setAsTable(false)}>Graph</button>
    <button type="button" aria-pressed=${asTable} onClick=${() => setAsTable(true)}>Table</button>
  </div>`;
  if (!graph.vertices.length) {
    return html`<${Section} title="Graph" id="graph"><${Empty} title="The driver has not reported a graph yet." ><p>It appears when the program calls <code>execute</code>.</p><//><//>`;
  }
  return html`<${Section} title="Graph" id="graph" aside=${choose}>
    ${asTable ? html`<${GraphTable} job=${job} graph=${graph} />` : html`<${Drawing} job=${job} graph=${graph} selected=${selected} />`}
  <//>`;
}

function Drawing({ job, graph, selected }) {
  const frame = useRef(null);
  const [width, setWidth] = useState(0);
  const [moved, setMoved] = useState(null); // What the user has made of it: {scale, x, y}
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry.contentRect.width)));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  const down = width > 0 && width < NARROW;
  const structure = graph.vertices.map((each) => each.id).join() + graph.edges.map((each) => each.key).join();
  const plan = useMemo(() => arrange(graph.vertices, graph.edges, down), [structure, down]);
  const fitted = fit(plan, width, down);
  const view = moved ?? fitted;
  useEffect(() => setMoved(null), [plan]);

  const zoom = useCallback((factor, centre) => {
    setMoved((before) => {
      const from = before ?? fitted;
      const scale = Math.min(NEAREST, Math.max(fitted.scale * 0.7, from.scale * factor));
      const { x, y } = centre ?? { x: width / 2, y: fitted.height / 2 };
      const ratio = scale / from.scale;
      return { ...from, scale, x: x - (x - from.x) * ratio, y: y - (y - from.y) * ratio };
    });
  }, [fitted.scale, fitted.height, width]);
  useDragging(frame, fitted, setMoved, zoom);

  const far = view.scale < 0.7;
  return html`<div class="graph">
    <div class="frame ${down ? "down" : ""}" ref=${frame} style=${{ height: `${fitted.height}px` }}>
      ${width > 0 && html`<div class="canvas ${far ? "far" : ""} ${plan.dense ? "dense" : ""}" style=${{ transform: `translate(${view.x}px, ${view.y}px) scale(${view.scale})`, width: `${plan.width}px`, height: `${plan.height}px` }}>
        <svg width=${plan.width} height=${plan.height} aria-hidden="true">
          <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" /></marker></defs>
          ${graph.edges.map((edge) => html`<path key=${edge.key} class="edge ${edge.held ? "held" : ""} ${edge.feedback ? "feedback" : ""}" d=${plan.lines.get(edge.key)?.path} stroke-width=${thickness(edge.rate)} marker-end="url(#arrow)" />`)}
        </svg>
        ${graph.edges.map((edge) => html`<${EdgeLabel} key=${edge.key} edge=${edge} place=${plan.lines.get(edge.key)} dense=${plan.dense} ended=${isEnded(job.status)} />`)}
        <ul class="vertices" aria-label="Vertices">
          ${graph.vertices.map((vertex) => html`<${VertexCard} key=${vertex.id} job=${job} vertex=${vertex} place=${plan.places.get(vertex.id)} size=${plan.size} selected=${selected === vertex.id} />`)}
        </ul>
      </div>`}
    </div>
    <div class="below">
      <p class="legend" aria-hidden="true"><span><i class="busy"></i>busy</span><span><i class="held"></i>back-pressured (held)</span><span><i class="idle"></i>idle</span><span class="soft">of the busiest subtask, last 10 s</span></p>
      <div class="zoom" role="group" aria-label="Size of the graph">
        <button type="button" class="quiet" aria-label="smaller" onClick=${() => zoom(1 / 1.3)}>−</button>
        <button type="button" class="quiet" aria-label="larger" onClick=${() => zoom(1.3)}>+</button>
        <button type="button" class="quiet" disabled=${moved === null} onClick=${() => setMoved(null)}>fit</button>
      </div>
    </div>
  </div>`;
}

// The scale at which all of it is seen, in the middle of the frame.
function fit(plan, width, down) {
  const scale = Math.min(1, width / plan.width, down ? 1 : TALLEST / plan.height);
  const height = Math.max(down ? 0 : 170, Math.ceil(plan.height * scale));
  return { scale, x: (width - plan.width * scale) / 2, y: (height - plan.height * scale) / 2, height };
}

const thickness = (value) => (value ? Math.min(5, 1.2 + Math.log10(1 + value) * 0.6).toFixed(1) : "1.2");

// Dragging moves the graph, Ctrl and the wheel zoom it; the wheel alone scrolls the page.
function useDragging(frame, fitted, setMoved, zoom) {
  useEffect(() => {
    const element = frame.current;
    let from = null;
    const begin = (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      from = { x: event.clientX, y: event.clientY, started: false };
    };
    const drag = (event) => {
      if (from === null) return;
      const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
      if (!from.started && Math.hypot(dx, dy) < 5) return;
      if (!from.started) element.setPointerCapture(event.pointerId);
      from = { x: event.clientX, y: event.clientY, started: true };
      setMoved((before) => {
        const at = before ?? fitted;
        return { ...at, x: at.x + dx, y: at.y + dy };
      });
    };
    const end = () => {
      from = null;
    };
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = element.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 300), { x: event.clientX - box.left, y: event.clientY - box.top });
    };
    element.addEventListener("pointerdown", begin);
    element.addEventListener("pointermove", drag);
    element.addEventListener("pointerup", end);
    element.addEventListener("pointercancel", end);
    element.addEventListener("wheel", wheel, { passive: false });
    return () => {
      element.removeEventListener("pointerdown", begin);
      element.removeEventListener("pointermove", drag);
      element.removeEventListener("pointerup", end);
      element.removeEventListener("pointercancel", end);
      element.removeEventListener("wheel", wheel);
    };
  }, [fitted.scale, fitted.x, fitted.y, zoom]);
}

function EdgeLabel({ edge, place, dense, ended }) {
  if (!place) return null;
  return html`<div class="edgelabel ${edge.held ? "held" : ""}" style=${{ left: `${place.x}px`, top: `${place.y}px` }} aria-hidden="true"
    title=${`${edge.side ? `side output ${edge.side}, ` : ""}${edge.ship.toLowerCase()}${edge.records === null ? "" : `, ${exact(edge.records)} records, ${bytes(edge.bytes)}`}`}>
    <b>${edge.rate === null ? "" : ended ? count(edge.records) : rate(edge.rate)}</b>
    <div>${!dense && edge.rate !== null && html`<span>${ended ? bytes(edge.bytes) : `${bytes(edge.byteRate)}/s`}</span>`}${!dense && html`<span>${edge.side ? "side output" : edge.ship.toLowerCase()}</span>`}</div>
  </div>`;
}

export function watermarkText(vertex) {
  if (vertex.isHead) return "no watermark"; // It emits the last one at once, so that feedback holds nothing back.
  if (isLastWatermark(vertex.watermark)) return "end of input";
  return hasWatermark(vertex.watermark) ? `lag ${duration(vertex.lag)}` : "no watermark";
}

function VertexCard({ job, vertex, place, size, selected }) {
  const running = !isEnded(job.status);
  const marks = [vertex.isBottleneck && "bottleneck", vertex.isHeld && "back-pressured", vertex.isSkewed && "skew"].filter(Boolean);
  const label = `${vertex.name}, parallelism ${vertex.parallelism}, ${vertex.status.toLowerCase()}` + (running ? `, busy ${percent(vertex.busy)}, back-pressured ${percent(vertex.held)}, idle ${percent(vertex.idle)}` : "")
    + `, ${rate(vertex.rateIn)} in, ${rate(vertex.rateOut)} out, ${watermarkText(vertex)}${marks.length ? `, ${marks.join(", ")}` : ""}`;
  const target = selected ? href("jobs", job.job_id) : href("jobs", job.job_id, "graph", vertex.id);
  return html`<li>
    <a class="vertex ${running ? "" : "ended"} ${vertex.isBottleneck ? "bottleneck" : ""} ${vertex.isHeld ? "held" : ""} ${vertex.status.toLowerCase()}" href=${target} aria-label=${label} aria-current=${selected ? "true" : undefined} draggable=${false}
      style=${{ left: `${place.x - size.width / 2}px`, top: `${place.y - size.height / 2}px`, width: `${size.width}px`, height: `${size.height}px`, "--share": running ? vertex.busy.toFixed(2) : "0" }}>
      <span class="name">${vertex.name}</span>
      <span class="shares">${running && vertex.measured
        ? html`<span class="bar"><span class="busy" style=${{ width: `${vertex.busy * 100}%` }}></span><span class="held" style=${{ width: `${vertex.held * 100}%` }}></span></span>
          <span class="percents"><b class="one">${percent(vertex.busy)}</b> busy${vertex.held >= 0.005 && html`<span class="two"><b>${percent(vertex.held)}</b> held</span>`}<span class="three"><b>${percent(vertex.idle)}</b> idle</span></span>`
        : html`<${Status} value=${vertex.status} />`}</span>
      <span class="flow"><span class="parallelism" title="parallelism">×${vertex.parallelism}</span><span>${vertex.isSource ? rate(vertex.rateOut || vertex.rateIn) : `${count(vertex.rateIn)} → ${rate(vertex.rateOut)}`}</span><span class="lag">${!vertex.isHead && (hasWatermark(vertex.watermark) || isLastWatermark(vertex.watermark)) ? watermarkText(vertex) : ""}</span></span>
      ${marks.length > 0 && html`<span class="marks">${marks.map((mark) => html`<span class="mark ${mark}">${mark}</span>`)}</span>`}
    </a>
  </li>`;
}

const COLUMNS = [
  "Vertex", "State", { name: "Parallelism", className: "number" }, "Time", { name: "Records in", className: "number" }, { name: "Records out", className: "number" },
  { name: "Bytes in", className: "number" }, { name: "Bytes out", className: "number" }, { name: "Watermark", className: "number" }, { name: "Skew", className: "number" }, "From",
];

function GraphTable({ job, graph }) {
  return html`<${Table} caption="Vertices of the job, in the order of the data" hidden=${true} columns=${COLUMNS}>
    ${graph.vertices.map((vertex) => html`<tr key=${vertex.id}>
      <th scope="row"><a href=${href("jobs", job.job_id, "graph", vertex.id)}>${vertex.name}</a>${vertex.isBottleneck && html` <span class="mark bottleneck">bottleneck</span>`}</th>
      <td><${Status} value=${vertex.status} /></td>
      <td class="number">${vertex.parallelism}</td>
      <td><${TimeBar} busy=${vertex.busy} held=${vertex.held} idle=${vertex.idle} text=${true} /></td>
      <td class="number">${exact(vertex.recordsIn)}<small>${rate(vertex.rateIn)}</small></td>
      <td class="number">${exact(vertex.recordsOut)}<small>${rate(vertex.rateOut)}</small></td>
      <td class="number">${bytes(vertex.bytesIn)}</td>
      <td class="number">${bytes(vertex.bytesOut)}</td>
      <td class="number">${watermarkText(vertex)}</td>
      <td class="number">${percent(vertex.skew)}</td>
      <td>${vertex.inputs.map((input) => html`<div class="clip" title=${graph.byId.get(input.source)?.name}>${graph.byId.get(input.source)?.name} <span class="soft">${input.ship_strategy.toLowerCase()}${input.side_output ? `, side output ${input.side_output}` : ""}</span></div>`)}${graph.edges.filter((edge) => edge.feedback && edge.target === vertex.id).map((edge) => html`<div class="clip" title=${graph.byId.get(edge.source).name}>${graph.byId.get(edge.source).name} <span class="soft">feedback</span></div>`)}</td>
    </tr>`)}
  <//>`;
}
