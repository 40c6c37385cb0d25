// The graph of a chain, and what happened in it between two looks.

export interface Drop {
  reason: string;
  packets: number;
  fate: string;
}

export interface GraphElement {
  name: string;
  class: string;
  threads: string;
  packets: number;
  made: number;
  cycles: number;
  drops: Drop[];
}

export interface Edge {
  from: number;
  output: number;
  to: number;
  input: number;
  is_pull: boolean;
  is_context: boolean;
  packets: number | null;
}

export interface Queue {
  element: number;
  length: number;
  capacity: number;
  highwater: number | null;
}

export interface GraphFunction {
  element: number;
  state: string;
  pid: number;
  restarts: number;
  packets_in: number;
  packets_out: number;
  occupancy: number;
  slots: number | null;
  last_error: string;
}

export interface Sessions {
  element: number;
  now: number;
  created: number;
  expired: number;
  closed: number;
  refused: number;
}

/** A graph, as the API answers it. */
export interface Graph {
  time_us: number;
  cycles: number;
  pid: number;
  swaps: number;
  threads: { idle_cycles: number; packets: number }[];
  elements: GraphElement[];
  edges: Edge[];
  queues: Queue[];
  functions: GraphFunction[];
  sessions: Sessions | null;
}

/** How full something is that holds packets. */
export interface Fill {
  used: number;
  size: number;
}

/** A graph with what happened since the one before; null where that is not known. */
export interface Live {
  graph: Graph;
  elements: (number | null)[];
  edges: (number | null)[];
  fills: (Fill | null)[];
  busy: (number | null)[];
  received: (number | null)[];
  lost: (number | null)[];
  /** Of each reason of each element. */
  drops: (number | null)[][];
}

/** Counts of packets that are gone, of an element. */
export function lost(element: GraphElement): number {
  const all = element.drops.filter((drop) => drop.fate === "lost");
  return all.reduce((sum, drop) => sum + drop.packets, 0);
}

/** Packets in a second between two graphs of the same process and configuration. */
export function between(before: Graph | null, now: Graph): Live {
  const isSame =
    before !== null &&
    before.pid === now.pid &&
    before.swaps === now.swaps &&
    before.elements.length === now.elements.length &&
    before.edges.length === now.edges.length &&
    now.time_us > before.time_us;
  const seconds = isSame ? (now.time_us - before.time_us) / 1e6 : 0;
  const per = (from: number | null | undefined, to: number | null): number | null => {
    if (!isSame || from === null || from === undefined || to === null) return null;
    return Math.max(0, to - from) / seconds;
  };
  const cycles = isSame ? now.cycles - before.cycles : 0;
  return {
    graph: now,
    elements: now.elements.map((one, at) => per(before?.elements[at]?.packets, one.packets)),
    edges: now.edges.map((one, at) => per(before?.edges[at]?.packets, one.packets)),
    fills: now.edges.map((edge) => fill(now, edge)),
    busy: now.threads.map((one, at) => {
      const idle = before?.threads[at]?.idle_cycles;
      return cycles <= 0 || idle === undefined ? null : 1 - (one.idle_cycles - idle) / cycles;
    }),
    received: now.threads.map((one, at) => per(before?.threads[at]?.packets, one.packets)),
    drops: now.elements.map((one, at) => {
      return one.drops.map((drop) => {
        const is = (other: Drop) => other.reason === drop.reason && other.fate === drop.fate;
        // A reason is reported as soon as there is a packet of it.
        return per(before?.elements[at]?.drops.find(is)?.packets ?? 0, drop.packets);
      });
    }),
    lost: now.elements.map((one, at) => {
      const earlier = before?.elements[at];
      return per(earlier === undefined ? null : lost(earlier), lost(one));
    }),
  };
}

/** How full the ring or queue is that an edge leads into or out of. */
function fill(graph: Graph, edge: Edge): Fill | null {
  const queue = graph.queues.find((one) => one.element === edge.from);
  if (queue !== undefined && edge.is_pull) return { used: queue.length, size: queue.capacity };
  const ring = graph.functions.find((one) => one.element === edge.to);
  if (ring !== undefined && ring.slots !== null) return { used: ring.occupancy, size: ring.slots };
  return null;
}
