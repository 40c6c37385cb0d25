// What of the page needs no browser: node --test control/manager/page/tests

import assert from "node:assert/strict";
import test from "node:test";

import { bytes, count, percent, short } from "../built/format.js";
import { layout, NODE_HEIGHT, NODE_WIDTH } from "../built/layout.js";
import { Looks } from "../built/looks.js";
import { between } from "../built/rates.js";
import { Parser } from "../built/stream.js";

/** Numbers that are the same each time (a linear congruential generator, Numerical Recipes). */
function numbers(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test("numbers are short and keep three digits", () => {
  const all = [0, 0.44, 7, 9.96, 999.4, 999.6, 1000, 1234, 99_960, 1_234_567, 2.5e9];
  const texts = ["0", "0.4", "7", "10", "999", "1.00 k", "1.00 k", "1.23 k", "100 k", "1.23 M"];
  assert.deepEqual(all.map(short), [...texts, "2.50 G"]);
  assert.equal(count(1234567), "1,234,567");
  assert.deepEqual([-0.1, 0.123, 7].map(percent), ["0.0 %", "12.3 %", "100.0 %"]);
});

test("bytes are shown sixteen a line", () => {
  assert.equal(bytes(""), "");
  assert.equal(bytes("0a0B"), "0000  0a 0B");
  const two = bytes("00".repeat(17)).split("\n");
  assert.deepEqual(two, [`0000  ${Array(16).fill("00").join(" ")}`, "0010  00"]);
});

test("events are the same however their text comes", () => {
  const text = ': comment\n\nid: 7\ndata: {"a":1}\n\nevent: problem\ndata: x\ndata: y\n\ndata:z\n\n';
  const whole = new Parser().push(text);
  assert.deepEqual(whole, [
    { type: "", id: "7", data: '{"a":1}' },
    { type: "problem", id: "", data: "x\ny" },
    { type: "", id: "", data: "z" },
  ]);
  const next = numbers(1);
  for (let round = 0; round < 200; round++) {
    const parser = new Parser();
    const found = [];
    for (let at = 0; at < text.length; ) {
      const size = 1 + next(9);
      found.push(...parser.push(text.slice(at, at + size)));
      at += size;
    }
    assert.deepEqual(found, whole);
  }
});

const element = (packets, drops = []) => ({ name: "a", class: "A", packets, drops });

function graph(time_us, packets, more = {}) {
  return {
    time_us,
    cycles: time_us * 2,
    pid: 1,
    swaps: 0,
    threads: [{ idle_cycles: time_us / 2, packets }],
    elements: [element(packets, [{ reason: "r", packets: packets / 10, fate: "lost" }])],
    edges: [{ from: 0, to: 0, is_pull: false, packets }, { from: 0, to: 0, packets: null }],
    queues: [],
    functions: [],
    sessions: null,
    ...more,
  };
}

test("rates are differences of the same configuration", () => {
  const before = graph(1e6, 100);
  const live = between(before, graph(3e6, 500));
  assert.deepEqual(live.elements, [200]);
  assert.deepEqual(live.edges, [200, null]);
  assert.deepEqual(live.lost, [20]);
  assert.deepEqual(live.drops, [[20]]);
  const first = between(graph(1e6, 0, { elements: [element(0)] }), graph(3e6, 500));
  assert.deepEqual(first.drops, [[25]]);
  assert.deepEqual(live.busy, [0.75]);
  const others = [{ pid: 2 }, { swaps: 1 }, { time_us: 1e6 }, { elements: [] }];
  for (const more of others) {
    const other = between(before, graph(3e6, 500, more));
    assert.ok([...other.elements, ...other.edges, ...other.busy].every((one) => one === null));
  }
  assert.deepEqual(between(null, before).edges, [null, null]);
});

test("queues and rings are shown on their edges", () => {
  const edges = [
    { from: 0, to: 1, is_pull: true, packets: 1 },
    { from: 1, to: 2, is_pull: false, packets: 1 },
    { from: 2, to: 0, is_pull: false, packets: 1 },
  ];
  const queues = [{ element: 0, length: 3, capacity: 9 }];
  const functions = [{ element: 2, occupancy: 5, slots: 1024 }];
  const { fills } = between(null, graph(1, 1, { edges, queues, functions }));
  assert.deepEqual(fills, [{ used: 3, size: 9 }, { used: 5, size: 1024 }, null]);
});

/** A graph of any shape: circles, loops, several links between two nodes. */
function shape(seed) {
  const next = numbers(seed);
  const nodes = 1 + next(40);
  const links = Array.from({ length: next(80) }, () => ({ from: next(nodes), to: next(nodes) }));
  return { nodes, links };
}

test("any graph is laid out without overlaps, and links lead down", () => {
  for (let seed = 0; seed < 300; seed++) {
    const { nodes, links } = shape(seed);
    const made = layout(nodes, links);
    assert.equal(made.nodes.length, nodes);
    const inside = (point) =>
      point.x >= 0 && point.x <= made.width && point.y >= 0 && point.y <= made.height;
    for (const [at, one] of made.nodes.entries()) {
      assert.ok(inside(one), `${seed}: node ${at}`);
      for (const other of made.nodes.slice(at + 1)) {
        const apart =
          Math.abs(one.x - other.x) >= NODE_WIDTH || Math.abs(one.y - other.y) >= NODE_HEIGHT;
        assert.ok(apart, `${seed}: two nodes overlap`);
      }
    }
    for (const [at, { from, to }] of links.entries()) {
      const points = made.links[at];
      if (from === to) {
        assert.equal(points.length, 0);
        continue;
      }
      assert.ok(points.every(inside), `${seed}: link ${at}`);
      const [first, last] = [points[0], points[points.length - 1]];
      assert.equal(first.x, made.nodes[from].x);
      assert.equal(last.x, made.nodes[to].x);
      assert.equal(first.y < last.y, !made.isBack[at], `${seed}: link ${at}`);
    }
  }
});

test("a chain is one column, and only what closes a circle leads back", () => {
  const links = [{ from: 0, to: 1 }, { from: 1, to: 2 }, { from: 2, to: 1 }];
  const made = layout(3, links);
  assert.deepEqual(made.isBack, [false, false, true]);
  assert.equal(new Set(made.nodes.map((node) => Math.round(node.x))).size, 1);
  assert.deepEqual(layout(0, []).nodes, []);
});

test("two hundred elements are laid out at once", () => {
  const next = numbers(9);
  const links = Array.from({ length: 400 }, (_, at) => {
    const from = at % 199;
    return { from, to: from + 1 + next(Math.min(10, 199 - from)) };
  });
  const begin = performance.now();
  layout(200, links);
  const spent = performance.now() - begin;
  assert.ok(spent < 1000, `${spent} ms`);
});

test("looks come one at a time, and one after each change", async () => {
  const ends = [];
  let [begun, running] = [0, 0];
  const looks = new Looks(async () => {
    begun += 1;
    running += 1;
    assert.equal(running, 1, "an older answer would come after a newer one");
    await new Promise((resolve) => ends.push(resolve));
    running -= 1;
  });
  const later = () => new Promise((resolve) => setTimeout(resolve));
  const first = looks.now();
  await later();
  // The look that is under way may not see what these two changed: one more sees both.
  const second = [looks.now(), looks.now()];
  await later();
  assert.equal(begun, 1);
  ends[0]();
  await first;
  await later();
  assert.equal(begun, 2);
  ends[1]();
  await Promise.all(second);
  // Many events are one look, and the page that is left takes none.
  looks.soon();
  looks.soon();
  looks.stop();
  await new Promise((resolve) => setTimeout(resolve, 400));
  assert.equal(begun, 2);
  looks.soon();
  looks.soon();
  await new Promise((resolve) => setTimeout(resolve, 400));
  assert.equal(begun, 3);
  ends[2]();
});
