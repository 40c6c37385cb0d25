// What the graph shows, as tables: for whoever reads or hears them.

import { ManagerEvent, Replicas } from "./api.js";
import { count, moment, percent, rate } from "./format.js";
import { Child, h } from "./preact.js";
import { Live, lost } from "./rates.js";

/** A table with its heading; nothing where it has no rows. */
export function Table(props: { title: string; id: string; head: string[]; rows: Child[][] }) {
  if (props.rows.length === 0) return null;
  return (
    <section class="card" aria-labelledby={`${props.id}-title`}>
      <h2 id={`${props.id}-title`}>{props.title}</h2>
      <div class="scroll" tabindex={0} role="group" aria-labelledby={`${props.id}-title`}>
        <table id={props.id} aria-labelledby={`${props.id}-title`}>
          <thead>
            <tr>
              {props.head.map((word) => (
                <th scope="col">{word}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {props.rows.map((row) => (
              <tr>
                {row.map((cell, at) => (at === 0 ? <th scope="row">{cell}</th> : <td>{cell}</td>))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface Props {
  live: Live;
  selected: string | null;
  select: (name: string) => void;
}

export function Elements(props: Props) {
  const { live } = props;
  const cycles = live.graph.elements.reduce((sum, one) => sum + one.cycles, 0);
  const rows = live.graph.elements.map((one, at) => [
    <button
      class="link"
      aria-pressed={props.selected === one.name ? "true" : "false"}
      onClick={() => props.select(one.name)}
    >
      {one.name}
    </button>,
    one.class,
    one.threads,
    rate(live.elements[at] ?? null),
    count(one.packets),
    count(lost(one)),
    cycles > 0 ? percent(one.cycles / cycles) : "",
  ]);
  const head = ["element", "class", "threads", "rate", "packets", "lost", "share of cycles"];
  return <Table title="Elements" id="elements" head={head} rows={rows} />;
}

export function Functions(props: { live: Live }) {
  const { graph } = props.live;
  const rows = graph.functions.map((one) => [
    graph.elements[one.element]?.name ?? "",
    <span class={one.state === "running" ? "good" : "bad"}>{one.state}</span>,
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
  return <Table title="Functions" id="functions" head={head} rows={rows} />;
}

export function ReplicaTable(props: { all: Replicas[] }) {
  const rows = props.all.flatMap((of) => {
    const weights = of.replicas.filter((one) => one.state === "up").map((one) => one.weight);
    const whole = weights.reduce((sum, weight) => sum + weight, 0);
    return of.replicas.map((one) => [
      `${of.function} ${one.number}`,
      one.version.split(" ")[0] ?? "",
      <span class={one.state === "up" ? "good" : ""}>{one.state}</span>,
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
  return <Table title="Replicas" id="replicas" head={head} rows={rows} />;
}

export function Queues(props: { live: Live }) {
  const { graph } = props.live;
  const rows = graph.queues.map((one) => [
    graph.elements[one.element]?.name ?? "",
    `${count(one.length)} of ${count(one.capacity)}`,
    one.highwater === null ? "" : count(one.highwater),
  ]);
  const head = ["queue", "packets in it", "most it held"];
  return <Table title="Queues" id="queues" head={head} rows={rows} />;
}

export function Threads(props: { live: Live }) {
  const { live } = props;
  const rows = live.graph.threads.map((_, at) => {
    const busy = live.busy[at] ?? null;
    return [
      String(at),
      busy === null ? "" : <meter min={0} max={1} value={Math.max(0, busy)} aria-label={`thread ${at} busy`} />,
      busy === null ? "" : percent(busy),
      rate(live.received[at] ?? null),
    ];
  });
  const head = ["thread", "busy", "share of time", "packets from its sources"];
  return <Table title="Threads" id="threads" head={head} rows={rows} />;
}

export function Events(props: { events: ManagerEvent[] }) {
  const rows = [...props.events].reverse().map((one) => [
    <time datetime={one.time}>{moment(one.time)}</time>,
    one.reason,
    one.message,
  ]);
  return <Table title="Events" id="events" head={["time", "reason", "what"]} rows={rows} />;
}
