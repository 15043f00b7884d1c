// Charts of a job over its life.
import uPlot from "../vendor/uplot/uPlot.esm.js";
import { bytes, count, duration } from "../format.js";
import { Section } from "../parts.js";
import { html, useEffect, useMemo, useRef, useState } from "../preact.js";
import { useStore } from "../store.js";
import { colour, theme } from "../theme.js";

const HEIGHT = 150;
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);
const CHARTS = [
  { title: "Records per second", format: count, series: [["read", "recordsInPerSecond"], ["written", "recordsOutPerSecond"]] },
  { title: "Epoch duration", format: duration, series: [["mean", "epochDurationMs"]] },
  { title: "Watermark lag", format: duration, series: [["lag", "watermarkLagMs"]] },
  { title: "State size", format: bytes, series: [["state", "stateSize"]] },
];

export function Charts({ job }) {
  const { time = [] } = job.history;
  const checkpoints = useMemo(() => checkpointSeries(job), [job.checkpoints]);
  return html`<${Section} title="Over time" id="charts">
    <div class="charts">
      ${CHARTS.map((chart) => html`<${Chart} key=${chart.title} title=${chart.title} format=${chart.format} times=${time} series=${chart.series.map(([label, name]) => ({ label, values: job.history[name] ?? [] }))} />`)}
      ${job.checkpoints.enabled && html`
        <${Chart} key="duration" title="Checkpoint duration" format=${duration} times=${checkpoints.time} points=${true} series=${[{ label: "end to end", values: checkpoints.duration }]} />
        <${Chart} key="size" title="Checkpoint size" format=${bytes} times=${checkpoints.time} points=${true} series=${[{ label: "whole", values: checkpoints.size }, { label: "stored", values: checkpoints.stored }]} />`}
    </div>
  <//>`;
}

function checkpointSeries(job) {
  const done = job.checkpoints.history.filter((each) => each.status === "COMPLETED").reverse();
  return {
    time: done.map((each) => each.trigger_timestamp),
    duration: done.map((each) => each.end_to_end_duration),
    size: done.map((each) => each.state_size),
    stored: done.map((each) => each.checkpointed_size),
  };
}

// A chart with its newest values as text, or those under the pointer.
export function Chart({ title, format, times, series, points = false }) {
  const holder = useRef(null);
  const plot = useRef(null);
  const [under, setUnder] = useState(null);
  const current = useStore(theme);
  const enough = times.length > 1 && series.some((each) => each.values.some((value) => value != null));
  const names = series.map((each) => each.label).join();

  useEffect(() => {
    if (!enough) return undefined;
    const made = new uPlot(options(holder.current.clientWidth, names.split(","), format, points, setUnder), [[], ...series.map(() => [])], holder.current);
    plot.current = made;
    const observer = new ResizeObserver(([entry]) => made.setSize({ width: Math.round(entry.contentRect.width), height: HEIGHT }));
    observer.observe(holder.current);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [enough, names, current, points]);

  useEffect(() => {
    if (!plot.current) return;
    plot.current.setData([times.map((at) => at / 1000), ...series.map((each) => each.values)]);
  }, [times, series.map((each) => each.values), enough, names, current].flat());

  const at = under ?? times.length - 1;
  return html`<figure class="chart">
    <figcaption><span class="title">${title}</span>
      ${series.map((each, place) => html`<span class="value s${place}">${series.length > 1 && html`<i aria-hidden="true"></i><span class="soft">${each.label} </span>`}${format(lastKnown(each.values, at, under !== null))}</span>`)}
    </figcaption>
    ${enough ? html`<div class="plot" ref=${holder} role="img" aria-label=${describe(title, series, format)}></div>` : html`<div class="plot none" ref=${holder}>no values yet</div>`}
  </figure>`;
}

function lastKnown(values, at, exactly) {
  if (exactly) return values[at] ?? null;
  for (let place = at; place >= 0; place -= 1) if (values[place] != null) return values[place];
  return null;
}

function describe(title, series, format) {
  return `${title}: ${series.map((each) => {
    const known = each.values.filter((value) => value != null);
    return known.length ? `${each.label} between ${format(Math.min(...known))} and ${format(Math.max(...known))}, now ${format(known[known.length - 1])}` : `${each.label} unknown`;
  }).join("; ")}`;
}

function options(width, labels, format, points, setUnder) {
  const line = colour("--line");
  const strokes = [colour("--accent"), colour("--second")];
  const axis = { stroke: colour("--soft"), grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    padding: [8, 10, 0, 0],
    cursor: { y: false, sync: { key: "job" }, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { y: { range: (_, least, most) => [Math.min(0, least ?? 0), most > 0 ? most * 1.1 : 1] } },
    axes: [
      { ...axis, space: 70, size: 28, values: (_, ticks) => ticks.map(clock) },
      { ...axis, size: 58, space: 36, ...(format === bytes ? { incrs: BINARY } : {}), values: (_, ticks) => ticks.map((value) => format(value)) },
    ],
    series: [
      {},
      ...labels.map((label, place) => ({
        label,
        stroke: strokes[place],
        width: 1.5,
        fill: place === 0 && !points ? `${strokes[0]}1a` : undefined,
        points: { show: points, size: 5 },
        spanGaps: true,
      })),
    ],
    hooks: { setCursor: [(plot) => setUnder(plot.cursor.idx ?? null)] },
  };
}

const minutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const seconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

const clock = (at) => (at % 60 ? seconds : minutes).format(new Date(at * 1000));
