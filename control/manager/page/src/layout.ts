// Where the elements of a graph are drawn: in layers, from sources to sinks, with few crossings
// (Sugiyama, Tagawa and Toda, 1981: layers, then order, then positions).

export interface Link {
  from: number;
  to: number;
}

export interface Point {
  x: number;
  y: number;
}

export interface Layout {
  width: number;
  height: number;
  /** Centre of each node. */
  nodes: Point[];
  /** Points that each link passes, from the middle of one side to that of another. */
  links: Point[][];
  /** Whether a link leads back. */
  isBack: boolean[];
}

export const NODE_WIDTH = 184;
export const NODE_HEIGHT = 54;
const LAYER_HEIGHT = 116;
const GAP = 22;
/** Room for a link that passes a layer. */
const PASS_WIDTH = 40;
const MARGIN = 16;
const SWEEPS = 6;

/** A node, or where a link passes a layer. */
interface Cell {
  layer: number;
  width: number;
  x: number;
  above: number[];
  below: number[];
}

/** Links that close a circle, found by a walk in depth without recursion. */
function backLinks(count: number, links: Link[]): boolean[] {
  const isBack = links.map(() => false);
  const out: number[][] = Array.from({ length: count }, () => []);
  const entered = Array.from({ length: count }, () => 0);
  links.forEach((link, at) => {
    out[link.from]!.push(at);
    entered[link.to]!++;
  });
  // 0: not seen, 1: on the walk, 2: done.
  const state = Array.from({ length: count }, () => 0);
  const starts = [...Array(count).keys()].sort((a, b) => entered[a]! - entered[b]!);
  for (const start of starts) {
    if (state[start] !== 0) continue;
    state[start] = 1;
    const walk = [{ node: start, next: 0 }];
    while (walk.length > 0) {
      const top = walk[walk.length - 1]!;
      const at = out[top.node]![top.next++];
      if (at === undefined) {
        state[top.node] = 2;
        walk.pop();
      } else {
        const to = links[at]!.to;
        if (state[to] === 1) isBack[at] = true;
        if (state[to] === 0) {
          state[to] = 1;
          walk.push({ node: to, next: 0 });
        }
      }
    }
  }
  return isBack;
}

/** The layer of each node: one below the lowest of those before it. */
function layers(count: number, down: Link[]): number[] {
  const layer = Array.from({ length: count }, () => 0);
  const open = Array.from({ length: count }, () => 0);
  const out: number[][] = Array.from({ length: count }, () => []);
  for (const link of down) {
    open[link.to]!++;
    out[link.from]!.push(link.to);
  }
  const ready = [...Array(count).keys()].filter((node) => open[node] === 0);
  for (let node = ready.shift(); node !== undefined; node = ready.shift()) {
    for (const to of out[node]!) {
      layer[to] = Math.max(layer[to]!, layer[node]! + 1);
      if (--open[to]! === 0) ready.push(to);
    }
  }
  return layer;
}

function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Orders each row by where its neighbours are, up and down again. */
function order(cells: Cell[], rows: number[][]): void {
  const place = cells.map(() => 0);
  const note = (row: number[]) => row.forEach((cell, at) => (place[cell] = at));
  rows.forEach(note);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 0;
    for (const row of isDown ? rows : [...rows].reverse()) {
      const wish = new Map<number, number>();
      for (const cell of row) {
        const near = isDown ? cells[cell]!.above : cells[cell]!.below;
        wish.set(cell, near.length === 0 ? place[cell]! : mean(near.map((one) => place[one]!)));
      }
      row.sort((a, b) => wish.get(a)! - wish.get(b)! || place[a]! - place[b]!);
      note(row);
    }
  }
}

/** Places the cells of a row near where they want to be, without overlaps. */
function spread(cells: Cell[], row: number[], wish: (cell: Cell) => number): void {
  const want = row.map((cell) => wish(cells[cell]!));
  const distance = (a: Cell, b: Cell) => (a.width + b.width) / 2 + GAP;
  let last: Cell | null = null;
  row.forEach((at, index) => {
    const cell = cells[at]!;
    cell.x = want[index]!;
    if (last !== null) cell.x = Math.max(cell.x, last.x + distance(last, cell));
    last = cell;
  });
  // All were pushed to the right only: half of that is taken back.
  const pushed = mean(row.map((at, index) => cells[at]!.x - want[index]!));
  for (const at of row) cells[at]!.x -= pushed;
}

function place(cells: Cell[], rows: number[][]): void {
  for (const row of rows) {
    let x = 0;
    for (const at of row) {
      const cell = cells[at]!;
      cell.x = x + cell.width / 2;
      x += cell.width + GAP;
    }
    for (const at of row) cells[at]!.x -= x / 2;
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 0;
    const near = (cell: Cell) => (isDown ? cell.above : cell.below);
    for (const row of isDown ? rows : [...rows].reverse()) {
      spread(cells, row, (cell) => {
        const others = near(cell);
        return others.length === 0 ? cell.x : mean(others.map((one) => cells[one]!.x));
      });
    }
  }
}

/** Lays a graph out. */
export function layout(count: number, links: Link[]): Layout {
  const isBack = backLinks(count, links);
  const down = links.map((link, at) => (isBack[at] ? { from: link.to, to: link.from } : link));
  const layer = layers(count, down.filter((link) => link.from !== link.to));
  const cells: Cell[] = layer.map((one) => {
    return { layer: one, width: NODE_WIDTH, x: 0, above: [], below: [] };
  });
  const join = (from: number, to: number) => {
    cells[from]!.below.push(to);
    cells[to]!.above.push(from);
  };
  const passed = down.map((link) => {
    if (link.from === link.to) return [];
    const path = [link.from];
    for (let at = cells[link.from]!.layer + 1; at < cells[link.to]!.layer; at++) {
      cells.push({ layer: at, width: PASS_WIDTH, x: 0, above: [], below: [] });
      path.push(cells.length - 1);
    }
    path.push(link.to);
    path.slice(1).forEach((to, at) => join(path[at]!, to));
    return path;
  });
  const rows: number[][] = Array.from({ length: Math.max(0, ...layer) + 1 }, () => []);
  cells.forEach((cell, at) => rows[cell.layer]!.push(at));
  order(cells, rows);
  place(cells, rows);

  const left = Math.min(...cells.map((cell) => cell.x - cell.width / 2), 0);
  const right = Math.max(...cells.map((cell) => cell.x + cell.width / 2), 0);
  const y = (cell: Cell) => MARGIN + NODE_HEIGHT / 2 + cell.layer * LAYER_HEIGHT;
  const points = cells.map((cell) => ({ x: cell.x - left + MARGIN, y: y(cell) }));
  return {
    width: right - left + 2 * MARGIN,
    height: rows.length * LAYER_HEIGHT - (LAYER_HEIGHT - NODE_HEIGHT) + 2 * MARGIN,
    nodes: points.slice(0, count),
    links: passed.map((path, at) => {
      const through = path.map((cell) => points[cell]!);
      const ends = through.map((point, index) => {
        const offset = index === 0 ? 1 : index === through.length - 1 ? -1 : 0;
        return { x: point.x, y: point.y + (offset * NODE_HEIGHT) / 2 };
      });
      return isBack[at] ? ends.reverse() : ends;
    }),
    isBack,
  };
}
