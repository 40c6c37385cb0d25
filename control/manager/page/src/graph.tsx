// The graph of a chain, drawn.

import { rate } from "./format.js";
import { Layout, layout, NODE_HEIGHT, NODE_WIDTH, Point } from "./layout.js";
import { Component, h } from "./preact.js";
import { Fill, Graph, GraphElement, Live } from "./rates.js";

interface Props {
  live: Live;
  selected: string | null;
  select: (name: string) => void;
}

interface State {
  /** How much larger than it would be by itself. */
  zoom: number;
  /** Whether it is as small as it must be for its whole width to be seen. */
  isWhole: boolean;
}

const NAME_LENGTH_MAX = 24;
const FILL_WIDTH = 64;
const ZOOM_STEP = 1.5;
const ZOOM_MAX = 4;
/** Smallest scale at which texts can still be read. */
const SCALE_MIN = 0.6;

export class GraphView extends Component<Props, State> {
  state = { zoom: 1, isWhole: false };
  private made: { key: string; layout: Layout } | null = null;

  /** The layout, made anew where the graph is another one. */
  private layout(graph: Graph): Layout {
    const key = JSON.stringify([
      graph.elements.map((one) => one.name),
      graph.edges.map((edge) => [edge.from, edge.to]),
    ]);
    if (this.made === null || this.made.key !== key) {
      this.made = { key, layout: layout(graph.elements.length, graph.edges) };
    }
    return this.made.layout;
  }

  private zoom(factor: number): void {
    const zoom = this.state.zoom * factor;
    this.setState({ zoom: Math.min(Math.max(zoom, 1 / ZOOM_MAX), ZOOM_MAX), isWhole: false });
  }

  private go(name: string): void {
    this.props.select(name);
    document.getElementById(nodeId(name))?.focus();
  }

  /** Arrows lead along the connections, and to what stands beside. */
  private key(event: KeyboardEvent, at: number): void {
    const { graph } = this.props.live;
    const to = { ArrowDown: next(graph, at), ArrowUp: previous(graph, at) }[event.key];
    const side = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const aim = side === undefined ? to : beside(this.layout(graph), at, side);
    const element = aim === undefined ? undefined : graph.elements[aim];
    if (element !== undefined) this.go(element.name);
    if (event.key === "Enter" || event.key === " ") this.go(graph.elements[at]!.name);
    if (/^(Arrow|Enter$| $)/.test(event.key)) event.preventDefault();
  }

  render() {
    const { live, selected } = this.props;
    const { graph } = live;
    const made = this.layout(graph);
    const found = graph.elements.findIndex((one) => one.name === selected);
    const entry = found < 0 ? 0 : found;
    const box = `0 0 ${Math.ceil(made.width)} ${Math.ceil(made.height)}`;
    const { zoom, isWhole } = this.state;
    const least = isWhole ? 0 : made.width * zoom * SCALE_MIN;
    const size = {
      width: `${100 * zoom}%`,
      minWidth: `${least}px`,
      maxWidth: `${made.width * zoom}px`,
    };
    return (
      <div>
        <div class="buttons" role="group" aria-label="Size of the graph">
          <button onClick={() => this.zoom(ZOOM_STEP)}>Larger</button>
          <button onClick={() => this.zoom(1 / ZOOM_STEP)}>Smaller</button>
          <button onClick={() => this.setState({ zoom: 1, isWhole: true })}>Fit</button>
          <span class="hint">Arrow keys go along connections. One has no rate where the elements' counters do not
            determine it.</span>
        </div>
        <div class="drawing">
          <svg viewBox={box} style={size} role="group" aria-label="Elements and connections">
            <defs>
              <marker
                id="arrow"
                viewBox="0 0 8 8"
                refX="7"
                refY="4"
                markerWidth="7"
                markerHeight="7"
                orient="auto"
              >
                <path d="M0 0 L8 4 L0 8 z" class="arrow" />
              </marker>
            </defs>
            {graph.edges.map((_, at) => edgeOf(live, made, at))}
            {graph.elements.map((element, at) => (
              <Node
                key={element.name}
                live={live}
                at={at}
                point={made.nodes[at]!}
                isSelected={at === found}
                isEntry={at === entry}
                click={() => this.go(element.name)}
                keydown={(event: KeyboardEvent) => this.key(event, at)}
              />
            ))}
          </svg>
        </div>
      </div>
    );
  }
}

function nodeId(name: string): string {
  return `node-${name}`;
}

function next(graph: Graph, at: number): number | undefined {
  return graph.edges.find((edge) => edge.from === at)?.to;
}

function previous(graph: Graph, at: number): number | undefined {
  return graph.edges.find((edge) => edge.to === at)?.from;
}

/** The nearest node to the left or right. */
function beside(made: Layout, at: number, side: number): number | undefined {
  const own = made.nodes[at]!;
  const distance = (point: Point) => (point.x - own.x) * side;
  const row = made.nodes.map((point, index) => ({ point, index }));
  const near = row.filter(({ point }) => point.y === own.y && distance(point) > 0);
  near.sort((a, b) => distance(a.point) - distance(b.point));
  return near[0]?.index;
}

function cut(text: string): string {
  // The end of a name tells more: lan/in, lan/out.
  return text.length <= NAME_LENGTH_MAX ? text : "…" + text.slice(1 - NAME_LENGTH_MAX);
}

interface NodeProps {
  live: Live;
  at: number;
  point: Point;
  isSelected: boolean;
  isEntry: boolean;
  click: () => void;
  keydown: (event: KeyboardEvent) => void;
}

function Node(props: NodeProps) {
  const { live, at, point } = props;
  const element = live.graph.elements[at]!;
  const note = noteOf(live, at, element);
  const classes = ["node", note.kind, props.isSelected ? "selected" : ""];
  const packets = rate(live.elements[at] ?? null);
  const spoken = [element.name, element.class, packets && `${packets} packets`, note.text];
  return (
    <g
      id={nodeId(element.name)}
      class={classes.join(" ")}
      transform={`translate(${point.x} ${point.y})`}
      role="button"
      tabindex={props.isEntry ? 0 : -1}
      aria-pressed={props.isSelected ? "true" : "false"}
      aria-label={spoken.filter((word) => word !== "").join(", ")}
      onClick={props.click}
      onKeyDown={props.keydown}
    >
      <title>{`${element.name} :: ${element.class}`}</title>
      <rect
        x={-NODE_WIDTH / 2}
        y={-NODE_HEIGHT / 2}
        width={NODE_WIDTH}
        height={NODE_HEIGHT}
        rx="6"
      />
      <text class="name" x={8 - NODE_WIDTH / 2} y="-10">
        {cut(element.name)}
      </text>
      <text class="dim" x={8 - NODE_WIDTH / 2} y="6">
        {cut(element.class)}
      </text>
      <text class="note" x={8 - NODE_WIDTH / 2} y="21">
        {note.text}
      </text>
      <text class="rate" x={NODE_WIDTH / 2 - 8} y="21">
        {packets}
      </text>
    </g>
  );
}

/** What is to be seen of an element at once: the state of a function, packets that are lost. */
function noteOf(live: Live, at: number, element: GraphElement): { text: string; kind: string } {
  const of = live.graph.functions.find((one) => one.element === at);
  if (of !== undefined) {
    const kind = of.state === "running" ? "function" : "function down";
    const times = of.restarts === 0 ? "" : `, restarts ${of.restarts}`;
    return { text: of.state + times, kind };
  }
  const lost = live.lost[at] ?? null;
  if (lost !== null && lost > 0) return { text: `${rate(lost)} lost`, kind: "losing" };
  return { text: "", kind: element.drops.length > 0 ? "has-lost" : "" };
}

/** A curve through points, straight down at each of them. */
function curve(points: Point[]): string {
  return points
    .map((point, at) => {
      const before = points[at - 1];
      if (before === undefined) return `M${point.x} ${point.y}`;
      const middle = (before.y + point.y) / 2;
      return `C${before.x} ${middle} ${point.x} ${middle} ${point.x} ${point.y}`;
    })
    .join(" ");
}

/** A loop beside a node that leads to itself. */
function loop(point: Point): Point[] {
  const x = point.x + NODE_WIDTH / 2 - 12;
  const y = point.y + NODE_HEIGHT / 2;
  return [{ x, y }, { x: x + 24, y: y + 18 }, { x: x + 6, y: y - 2 }];
}

/** Classes of rates: so wide is the line. */
function widthOf(packets: number | null): string {
  if (packets === null || packets <= 0) return "w0";
  return `w${Math.min(4, 1 + Math.floor(Math.log10(Math.max(packets, 1)) / 2))}`;
}

function edgeOf(live: Live, made: Layout, at: number) {
  const edge = live.graph.edges[at]!;
  const found = made.links[at]!;
  const points = found.length > 0 ? found : loop(made.nodes[edge.from]!);
  const packets = live.edges[at] ?? null;
  const classes = ["edge", widthOf(packets)];
  if (edge.is_pull) classes.push("pull");
  if (edge.is_context) classes.push("context");
  const segment = Math.floor((points.length - 1) / 2);
  const [from, to] = [points[segment]!, points[segment + 1]!];
  const [x, y] = [(from.x + to.x) / 2, (from.y + to.y) / 2];
  const fill = live.fills[at] ?? null;
  return (
    <g key={`edge-${at}`} class={classes.join(" ")} aria-hidden="true">
      <path d={curve(points)} marker-end="url(#arrow)" />
      <text x={x + 6} y={y + 4}>
        {rate(packets)}
      </text>
      {fill !== null && fillOf(fill, edge.is_pull ? below(points[0]!) : above(points))}
    </g>
  );
}

/** Beside where a link begins: what a queue holds. */
function below(begin: Point): Point {
  return { x: begin.x + 8, y: begin.y + 6 };
}

/** Beside where a link ends: what waits for a function. */
function above(points: Point[]): Point {
  const end = points[points.length - 1]!;
  return { x: end.x + 10, y: end.y - 14 };
}

/** A bar: how full a queue or a ring is. */
function fillOf(fill: Fill, { x, y }: Point) {
  const share = fill.size > 0 ? Math.min(fill.used / fill.size, 1) : 0;
  const kind = share >= 0.9 ? "full" : share >= 0.5 ? "half" : "";
  return (
    <g class={`fill ${kind}`} transform={`translate(${x} ${y})`}>
      <rect width={FILL_WIDTH} height="6" rx="2" />
      <rect class="used" width={FILL_WIDTH * share} height="6" rx="2" />
      <text x={FILL_WIDTH + 5} y="7">{`${fill.used}/${fill.size}`}</text>
    </g>
  );
}
