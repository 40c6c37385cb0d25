// The graph of a chain, and what happened in it between two looks.
/** Counts of packets that are gone, of an element. */
export function lost(element) {
    const all = element.drops.filter((drop) => drop.fate === "lost");
    return all.reduce((sum, drop) => sum + drop.packets, 0);
}
/** Packets in a second between two graphs of the same process and configuration. */
export function between(before, now) {
    const isSame = before !== null &&
        before.pid === now.pid &&
        before.swaps === now.swaps &&
        before.elements.length === now.elements.length &&
        before.edges.length === now.edges.length &&
        now.time_us > before.time_us;
    const seconds = isSame ? (now.time_us - before.time_us) / 1e6 : 0;
    const per = (from, to) => {
        if (!isSame || from === null || from === undefined || to === null)
            return null;
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
                const is = (other) => other.reason === drop.reason && other.fate === drop.fate;
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
function fill(graph, edge) {
    const queue = graph.queues.find((one) => one.element === edge.from);
    if (queue !== undefined && edge.is_pull)
        return { used: queue.length, size: queue.capacity };
    const ring = graph.functions.find((one) => one.element === edge.to);
    if (ring !== undefined && ring.slots !== null)
        return { used: ring.occupancy, size: ring.slots };
    return null;
}
