// What the graph shows, as tables: for whoever reads or hears them.
import { count, moment, percent, rate } from "./format.js";
import { h } from "./preact.js";
import { lost } from "./rates.js";
/** A table with its heading; nothing where it has no rows. */
export function Table(props) {
    if (props.rows.length === 0)
        return null;
    return (h("section", { class: "card", "aria-labelledby": `${props.id}-title` },
        h("h2", { id: `${props.id}-title` }, props.title),
        h("div", { class: "scroll", tabindex: 0, role: "group", "aria-labelledby": `${props.id}-title` },
            h("table", { id: props.id, "aria-labelledby": `${props.id}-title` },
                h("thead", null,
                    h("tr", null, props.head.map((word) => (h("th", { scope: "col" }, word))))),
                h("tbody", null, props.rows.map((row) => (h("tr", null, row.map((cell, at) => (at === 0 ? h("th", { scope: "row" }, cell) : h("td", null, cell)))))))))));
}
export function Elements(props) {
    const { live } = props;
    const cycles = live.graph.elements.reduce((sum, one) => sum + one.cycles, 0);
    const rows = live.graph.elements.map((one, at) => [
        h("button", { class: "link", "aria-pressed": props.selected === one.name ? "true" : "false", onClick: () => props.select(one.name) }, one.name),
        one.class,
        one.threads,
        rate(live.elements[at] ?? null),
        count(one.packets),
        count(lost(one)),
        cycles > 0 ? percent(one.cycles / cycles) : "",
    ]);
    const head = ["element", "class", "threads", "rate", "packets", "lost", "share of cycles"];
    return h(Table, { title: "Elements", id: "elements", head: head, rows: rows });
}
export function Functions(props) {
    const { graph } = props.live;
    const rows = graph.functions.map((one) => [
        graph.elements[one.element]?.name ?? "",
        h("span", { class: one.state === "running" ? "good" : "bad" }, one.state),
        one.pid === 0 ? "" : String(one.pid),
        String(one.restarts),
        count(one.packets_in),
        count(one.packets_out),
        one.slots === null ? String(one.occupancy) : `${one.occupancy} of ${one.slots}`,
        one.last_error,
    ]);
    const head = [
        "function",
        "state",
        "process",
        "restarts",
        "packets in",
        "out",
        "slots in use",
        "last error",
    ];
    return h(Table, { title: "Functions", id: "functions", head: head, rows: rows });
}
export function ReplicaTable(props) {
    const rows = props.all.flatMap((of) => {
        const weights = of.replicas.filter((one) => one.state === "up").map((one) => one.weight);
        const whole = weights.reduce((sum, weight) => sum + weight, 0);
        return of.replicas.map((one) => [
            `${of.function} ${one.number}`,
            one.version.split(" ")[0] ?? "",
            h("span", { class: one.state === "up" ? "good" : "" }, one.state),
            one.state === "up" ? percent(one.weight / whole) : "",
            count(one.sessions),
            count(one.waiting),
            count(one.packets),
            count(one.lost),
            String(one.failures),
        ]);
    });
    const head = [
        "replica",
        "version",
        "state",
        "new sessions",
        "sessions",
        "waiting",
        "packets",
        "lost",
        "failures",
    ];
    return h(Table, { title: "Replicas", id: "replicas", head: head, rows: rows });
}
export function Queues(props) {
    const { graph } = props.live;
    const rows = graph.queues.map((one) => [
        graph.elements[one.element]?.name ?? "",
        `${count(one.length)} of ${count(one.capacity)}`,
        one.highwater === null ? "" : count(one.highwater),
    ]);
    const head = ["queue", "packets in it", "most it held"];
    return h(Table, { title: "Queues", id: "queues", head: head, rows: rows });
}
export function Threads(props) {
    const { live } = props;
    const rows = live.graph.threads.map((_, at) => {
        const busy = live.busy[at] ?? null;
        return [
            String(at),
            busy === null ? "" : h("meter", { min: 0, max: 1, value: Math.max(0, busy), "aria-label": `thread ${at} busy` }),
            busy === null ? "" : percent(busy),
            rate(live.received[at] ?? null),
        ];
    });
    const head = ["thread", "busy", "share of time", "packets from its sources"];
    return h(Table, { title: "Threads", id: "threads", head: head, rows: rows });
}
export function Events(props) {
    const rows = [...props.events].reverse().map((one) => [
        h("time", { datetime: one.time }, moment(one.time)),
        one.reason,
        one.message,
    ]);
    return h(Table, { title: "Events", id: "events", head: ["time", "reason", "what"], rows: rows });
}
