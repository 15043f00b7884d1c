// Where the vertices and edges of a graph are drawn.
import { Graph, layout } from "./vendor/dagre/dagre.esm.js";

export const MANY = 12;

const SIZES = {
  roomy: { width: 248, height: 124, label: { width: 84, height: 48 }, ranks: 24, nodes: 30 },
  dense: { width: 196, height: 92, label: { width: 8, height: 8 }, ranks: 26, nodes: 22 },
};

// Returns the places of vertices and edges, and the size of the whole; `down` draws it from top to bottom.
export function arrange(vertices, edges, down) {
  const size = vertices.length > MANY ? SIZES.dense : SIZES.roomy;
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: down ? "TB" : "LR", ranksep: size.ranks, nodesep: size.nodes, edgesep: 14, marginx: 14, marginy: 14 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const vertex of vertices) graph.setNode(vertex.id, { width: size.width, height: size.height });
  // The way back of an iteration is laid out as a way forward, so that vertices stay in the order of the data.
  const ends = (edge) => (edge.feedback ? [edge.target, edge.source] : [edge.source, edge.target]);
  for (const edge of edges) graph.setEdge(...ends(edge), { ...size.label, labelpos: "c" }, edge.key);
  layout(graph);
  const places = new Map(vertices.map((vertex) => [vertex.id, graph.node(vertex.id)]));
  const lines = new Map(edges.map((edge) => {
    const found = graph.edge(...ends(edge), edge.key);
    const points = edge.feedback ? [...found.points].reverse() : found.points;
    return [edge.key, { x: found.x, y: found.y, path: curve(points, down) }];
  }));
  const { width, height } = graph.graph();
  return { places, lines, width, height, size, dense: size === SIZES.dense };
}

// A smooth line through points that leaves and arrives in the direction of the graph.
function curve(points, down) {
  const [first, ...rest] = points;
  let path = `M${first.x},${first.y}`;
  let before = first;
  for (const point of rest) {
    const middle = down ? (before.y + point.y) / 2 : (before.x + point.x) / 2;
    path += down
      ? `C${before.x},${middle} ${point.x},${middle} ${point.x},${point.y}`
      : `C${middle},${before.y} ${middle},${point.y} ${point.x},${point.y}`;
    before = point;
  }
  return path;
}
