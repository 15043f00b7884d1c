// What the page shows of a job, computed from its details.
import { duration } from "./format.js";

const LEAST_WATERMARK = -9e18;
const GREATEST_WATERMARK = 9e18;
const HELD_BACK = 0.1; // Flink's limit between "ok" and "low"
const BUSY = 0.7;
const SKEWED = 0.3;
const LONG_EPOCH = 10_000; // milliseconds

export const ENDED = new Set(["FINISHED", "FAILED", "CANCELED"]);
export const isEnded = (status) => ENDED.has(status);

const sum = (values) => values.reduce((total, value) => total + value, 0);
const metric = (subtask, name) => Number(subtask.metrics[name] ?? 0) || 0;
const total = (vertex, name) => sum(vertex.subtasks.map((subtask) => metric(subtask, name)));

// The shares of a subtask's time.
export function shares(subtask) {
  const busy = metric(subtask, "busyTimeMsPerSecond") / 1000;
  const held = metric(subtask, "backPressuredTimeMsPerSecond") / 1000;
  const known = subtask.metrics.idleTimeMsPerSecond != null;
  return { busy, held, idle: known ? Math.max(0, 1 - busy - held) : 0, known };
}

// Flink's measure: the mean distance of the subtasks from their mean, as a share of the mean.
export function skewOf(values) {
  const mean = sum(values) / values.length;
  if (values.length < 2 || mean <= 0) return 0;
  return Math.min(1, sum(values.map((value) => Math.abs(value - mean))) / values.length / mean);
}

export function watermarkOf(subtask, vertex) {
  const input = subtask.metrics.currentInputWatermark;
  if (input != null) return Number(input);
  const last = vertex.operators[vertex.operators.length - 1];
  const first = vertex.operators[0];
  for (const operator of [last, first]) {
    const output = subtask.operator_metrics?.[operator?.operator_id]?.currentOutputWatermark;
    if (output != null) return Number(output);
  }
  return LEAST_WATERMARK * 2;
}

export const hasWatermark = (value) => value > LEAST_WATERMARK && value < GREATEST_WATERMARK;
export const isLastWatermark = (value) => value >= GREATEST_WATERMARK;

// How a vertex is doing. Its shares of time are those of its busiest subtask, so that they add up.
function vertexView(vertex, now, ended) {
  const all = vertex.subtasks.map(shares);
  const busiest = all.reduce((found, each) => (each.busy > found.busy ? each : found), all[0] ?? { busy: 0, held: 0, idle: 0 });
  const mostHeld = Math.max(0, ...all.map((each) => each.held));
  const watermarks = vertex.subtasks.map((subtask) => watermarkOf(subtask, vertex));
  const watermark = watermarks.length ? Math.min(...watermarks) : LEAST_WATERMARK * 2;
  const isSource = vertex.inputs.length === 0;
  const counted = vertex.subtasks.map((subtask) => metric(subtask, "numRecordsIn"));
  return {
    ...vertex,
    id: vertex.vertex_id,
    isSource,
    busy: busiest.busy,
    held: busiest.held,
    idle: busiest.idle,
    mostHeld,
    measured: all.some((each) => each.known),
    status: statusOf(vertex.subtasks),
    recordsIn: sum(counted),
    recordsOut: total(vertex, "numRecordsOut"),
    rateIn: total(vertex, "numRecordsInPerSecond"),
    rateOut: total(vertex, "numRecordsOutPerSecond"),
    bytesIn: total(vertex, "numBytesIn"),
    bytesOut: total(vertex, "numBytesOut"),
    byteRateIn: total(vertex, "numBytesInPerSecond"),
    byteRateOut: total(vertex, "numBytesOutPerSecond"),
    watermark,
    lag: hasWatermark(watermark) && !ended ? now - watermark : null,
    skew: skewOf(counted),
  };
}

const ORDER = ["FAILED", "CANCELING", "CANCELED", "CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED"];

function statusOf(subtasks) {
  const found = new Set(subtasks.map((subtask) => subtask.status));
  return ORDER.find((status) => found.has(status)) ?? "CREATED";
}

// The graph of a job: its vertices by how they are doing, its edges with what flows over them, and its bottleneck.
export function graphOf(job) {
  const ended = isEnded(job.status);
  const vertices = job.vertices.map((vertex) => vertexView(vertex, job.now, ended));
  const byId = new Map(vertices.map((vertex) => [vertex.id, vertex]));
  const outputs = new Map();
  for (const vertex of vertices) {
    for (const input of vertex.inputs) outputs.set(input.source, (outputs.get(input.source) ?? 0) + 1);
  }
  const edges = vertices.flatMap((vertex) =>
    vertex.inputs.filter((input) => byId.has(input.source)).map((input, place) => {
      const source = byId.get(input.source);
      return {
        key: `${input.source}>${vertex.id}>${place}`,
        source: input.source,
        target: vertex.id,
        ship: input.ship_strategy,
        side: input.side_output,
        held: source.held > HELD_BACK,
        ...flow(source, vertex, outputs.get(input.source)),
      };
    }),
  );
  for (const vertex of vertices) {
    for (const head of vertex.feeds_back_to) {
      const { rateIn, byteRateIn, recordsIn, bytesIn } = byId.get(head);
      byId.get(head).isHead = true;
      edges.push({
        key: `${vertex.id}>${head}>feedback`, source: vertex.id, target: head, ship: "feedback", side: null, held: false, feedback: true,
        rate: rateIn, byteRate: byteRateIn, records: recordsIn, bytes: bytesIn,
      });
    }
  }
  const bottleneck = ended ? null : bottleneckOf(vertices, byId);
  for (const vertex of vertices) {
    vertex.isBottleneck = vertex === bottleneck;
    vertex.isHeld = vertex.held > HELD_BACK;
    vertex.isSkewed = vertex.skew >= SKEWED && vertex.recordsIn > 1000;
  }
  return { vertices, edges, bottleneck, byId };
}

// Records are counted at vertices. Where one end of an edge has no other edge, that end's count is the edge's.
function flow(source, target, outputs) {
  if (target.inputs.length === 1) {
    return { rate: target.rateIn, byteRate: target.byteRateIn, records: target.recordsIn, bytes: target.bytesIn };
  }
  if (outputs === 1) {
    return { rate: source.rateOut, byteRate: source.byteRateOut, records: source.recordsOut, bytes: source.bytesOut };
  }
  return { rate: null, byteRate: null, records: null, bytes: null };
}

// The busiest vertex that others wait for, if any; else one that is nearly always busy.
function bottleneckOf(vertices, byId) {
  const awaited = vertices.filter(
    (vertex) => vertex.busy >= 0.5 && vertex.inputs.some((input) => (byId.get(input.source)?.held ?? 0) > HELD_BACK),
  );
  const candidates = awaited.length ? awaited : vertices.filter((vertex) => vertex.busy >= Math.max(BUSY, 0.9));
  return candidates.reduce((found, each) => (found === null || each.busy > found.busy ? each : found), null);
}

export const readPerSecond = (graph) => sum(graph.vertices.filter((each) => each.isSource && !each.isHead).map((each) => each.rateIn || each.rateOut));

// What flows into vertices that nothing comes after; not into the end of an iteration alone, from where it comes back.
export function writtenPerSecond(graph) {
  const continued = new Set(graph.edges.filter((edge) => !edge.feedback).map((edge) => edge.source));
  const written = (each) => !continued.has(each.id) && !(each.feeds_back_to.length && each.operators.length === 1);
  return sum(graph.vertices.filter(written).map((each) => each.rateIn));
}

// The latency from each source to each operator, in the order of the graph: of its subtasks, the slowest.
export function latenciesOf(job) {
  const names = new Map(job.vertices.flatMap((vertex) => vertex.operators.map((each) => [each.operator_id, each.name])));
  const found = new Map();
  for (const vertex of job.vertices) {
    const order = vertex.operators.map((each) => each.operator_id);
    const all = vertex.subtasks.flatMap((subtask) => subtask.latencies ?? []).filter((each) => each.statistics.count);
    for (const each of all.sort((left, right) => order.indexOf(left.operator_id) - order.indexOf(right.operator_id))) {
      const key = `${each.source_id}>${each.operator_id}`;
      const source = each.source_id === null ? "all sources" : (names.get(each.source_id) ?? each.source_id);
      const slowest = found.get(key) ?? { key, source, operator: names.get(each.operator_id) ?? each.operator_id, vertex: vertex.vertex_id, count: 0 };
      slowest.count += each.statistics.count;
      for (const name of ["median", "p95", "p99"]) slowest[name] = Math.max(slowest[name] ?? -Infinity, each.statistics[name]);
      found.set(key, slowest);
    }
  }
  return [...found.values()];
}

const ended = (job) => job.checkpoints.history.filter((each) => each.status !== "IN_PROGRESS");

export const latestCheckpoint = (job) => job.checkpoints.history.find((each) => each.status === "COMPLETED") ?? null;

// How many checkpoints have failed since the last that completed.
export function failedInARow(job) {
  const found = ended(job).findIndex((each) => each.status === "COMPLETED");
  return found < 0 ? ended(job).length : found;
}

// What is to be known about a job in a few words, the worst first: [{level, text, link}].
export function findings(job, graph) {
  const found = [];
  const failed = failedInARow(job);
  if (job.status === "FAILED" && job.exceptions.length) {
    found.push({ level: "bad", text: `Failed: ${job.exceptions[0].exception}`, tab: "exceptions" });
  } else if (job.status === "RESTARTING" && job.exceptions.length) {
    found.push({ level: "bad", text: `Restarts after: ${job.exceptions[0].exception}`, tab: "exceptions" });
  } else if (job.exceptions.length && job.now - job.exceptions[0].timestamp < 3_600_000 && !isEnded(job.status)) {
    found.push({ level: "warn", text: `Restarted after: ${job.exceptions[0].exception}`, tab: "exceptions" });
  }
  if (failed && !isEnded(job.status)) {
    found.push({ level: "bad", text: `${failed} checkpoint${failed > 1 ? "s" : ""} failed since the last that completed`, tab: "checkpoints" });
  }
  const epoch = Number(job.metrics.currentEpochDurationMs ?? 0);
  if (epoch > LONG_EPOCH && !isEnded(job.status)) {
    found.push({ level: "warn", text: `The epoch has taken ${duration(epoch)} so far; the logs say why`, tab: "logs" });
  }
  if (graph.bottleneck) {
    found.push({ level: "warn", text: `Bottleneck: ${graph.bottleneck.name}, busy ${Math.round(graph.bottleneck.busy * 100)}%`, vertex: graph.bottleneck.id });
  }
  const skewed = graph.vertices.find((each) => each.isSkewed);
  if (skewed && !isEnded(job.status)) {
    found.push({ level: "warn", text: `Skew: the subtasks of ${skewed.name} differ by ${Math.round(skewed.skew * 100)}% in records`, vertex: skewed.id });
  }
  if (!job.checkpoints.enabled && job.job_type === "STREAMING" && !isEnded(job.status)) {
    found.push({ level: "info", text: "No checkpoints: a failure loses the state", tab: "checkpoints" });
  }
  return found;
}
