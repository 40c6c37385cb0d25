// One chain: its state, its graph with live rates, its functions, and what may be done to it.

import {
  call,
  Chain,
  Change,
  Generation,
  ManagerEvent,
  path,
  Problem,
  reason,
  Refusal,
} from "./api.js";
import { Costs } from "./costs.js";
import { Declare } from "./declare.js";
import { Asked, Confirmation } from "./dialog.js";
import { Drops } from "./drops.js";
import { moment } from "./format.js";
import { GraphView } from "./graph.js";
import { Lines } from "./lines.js";
import { Looks } from "./looks.js";
import { Component, h } from "./preact.js";
import { between, Graph, Live } from "./rates.js";
import { Sessions } from "./sessions.js";
import { follow, Message } from "./stream.js";
import { Elements, Events, Functions, Queues, ReplicaTable, Threads } from "./tables.js";

interface Props {
  name: string;
  back: () => void;
  refused: (refusal: Refusal) => void;
}

interface State {
  chain: Chain | null;
  generations: Generation[];
  live: Live | null;
  /** Why there are no rates at the moment. */
  stale: string;
  events: ManagerEvent[];
  selected: string | null;
  configuration: string;
  problem: string;
  asked: Asked | null;
  isChanging: boolean;
}

const EVENTS_MAX = 100;
/** Status of a problem: the chain does not run. */
const NOT_RUNNING = 409;

export class ChainPage extends Component<Props, State> {
  state: State = {
    chain: null,
    generations: [],
    live: null,
    stale: "",
    events: [],
    selected: null,
    configuration: "",
    problem: "",
    asked: null,
    isChanging: false,
  };
  private stops: (() => void)[] = [];
  private looks = new Looks(() => this.look());

  private get target(): string {
    return path("chains", this.props.name);
  }

  componentDidMount(): void {
    void this.looks.now();
    const chain = encodeURIComponent(this.props.name);
    this.stops = [
      follow(`/v1/events?chain=${chain}`, {
        message: this.event,
        broken: () => {},
        ended: this.props.refused,
      }),
      follow(`${this.target}/graph?follow=true`, {
        message: this.graph,
        broken: (stale) => this.setState({ stale }),
        ended: this.props.refused,
      }),
    ];
  }

  componentWillUnmount(): void {
    this.stops.forEach((stop) => stop());
    this.looks.stop();
  }

  private async look(): Promise<void> {
    try {
      const chain = await call<Chain>("GET", this.target);
      const page = await call<{ items: Generation[] }>("GET", `${this.target}/generations`);
      this.setState({ chain, generations: page.items });
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) this.props.refused(error);
      this.failed(error);
    }
  }

  private event = (message: Message): void => {
    if (message.type !== "") return;
    const event = JSON.parse(message.data) as ManagerEvent;
    // Several may come in one piece, before the page is drawn with the first of them.
    this.setState(({ events }) => ({ events: [...events, event].slice(-EVENTS_MAX) }));
    this.looks.soon();
  };

  private graph = (message: Message): void => {
    if (message.type === "problem") {
      const { status, detail } = JSON.parse(message.data) as Problem;
      // Of what does not run any more, the last numbers would look like those of what runs next.
      const isOver = status === NOT_RUNNING;
      this.setState(({ live }) => ({ live: isOver ? null : live, stale: detail }));
      return;
    }
    const graph = JSON.parse(message.data) as Graph;
    this.setState(({ live }) => {
      const before = live?.graph ?? null;
      // Several readers share what the manager reads, so one may get the same graph again.
      const isSame = before?.time_us === graph.time_us && before.pid === graph.pid;
      return { live: isSame ? live : between(before, graph), stale: "" };
    });
  };

  private log = async (): Promise<string[]> => {
    return (await call<{ lines: string[] }>("GET", `${this.target}/log`)).lines;
  };

  private failed = (error: unknown): void => this.setState({ problem: reason(error) });

  private select = async (selected: string): Promise<void> => {
    this.setState({ selected, configuration: "" });
    try {
      const target = path("chains", this.props.name, "handlers", `${selected}.config`);
      const { value } = await call<{ value: string }>("GET", target);
      if (this.state.selected === selected) this.setState({ configuration: value });
    } catch (error) {
      this.failed(error);
    }
  };

  /** Asks what a change would do, shows it, and makes it when that is confirmed. */
  private ask = async (
    words: { title: string; text: string; action: string },
    [method, target, body]: [string, string, unknown],
    then: () => void = () => {},
  ): Promise<void> => {
    const { chain } = this.state;
    if (chain === null) return;
    this.setState({ problem: "" });
    const only = { "If-Match": `"${chain.generation}"` };
    try {
      const change = await call<Change>(method, `${target}?dry_run=true`, body, only);
      const make = async () => {
        await call<Change>(method, target, body, only);
        then();
        await this.looks.now();
      };
      this.setState({ asked: { ...words, change, make } });
    } catch (error) {
      this.failed(error);
    }
  };

  private stopOrStart = (): void => {
    const { chain } = this.state;
    if (chain?.spec === undefined) return;
    const action = chain.stopped ? "Start" : "Stop";
    const text = chain.stopped
      ? "The manager starts its data plane."
      : "Its data plane ends, and its sessions with it. It stays declared.";
    const spec = { ...chain.spec, stopped: !chain.stopped };
    void this.ask({ title: `${action} ${chain.name}`, text, action }, ["PUT", this.target, spec]);
  };

  private rollback = (event: Event): void => {
    event.preventDefault();
    const { chain } = this.state;
    const chosen = document.getElementById("generation") as HTMLSelectElement | null;
    if (chain === null || chosen === null || chosen.value === "") return;
    const to = Number(chosen.value);
    const title = `Roll ${chain.name} back`;
    const text = `Generation ${to} is declared again, as a new one.`;
    const target = `${this.target}/rollback`;
    void this.ask({ title, text, action: "Roll back" }, ["POST", target, { to }]);
  };

  private remove = (): void => {
    const { name } = this.props;
    const text = "Its data plane ends. Its history stays, and a rollback brings it back.";
    const words = { title: `Delete ${name}`, text, action: "Delete" };
    void this.ask(words, ["DELETE", this.target, undefined], this.props.back);
  };

  private conditions(chain: Chain) {
    return (
      <ul class="conditions" aria-live="polite">
        {(chain.status?.conditions ?? []).map((one) => (
          <li>
            <span class={one.holds ? "good" : "bad"}>
              {one.holds ? "✓" : "✗"} {one.kind}: {one.reason}
            </span>{" "}
            <span class="dim">{one.message}</span>
          </li>
        ))}
      </ul>
    );
  }

  private actions(chain: Chain) {
    const earlier = this.state.generations.filter(
      (one) => one.generation !== chain.generation && !one.deleted,
    );
    return (
      <div class="buttons">
        <button id="stop" onClick={this.stopOrStart}>
          {chain.stopped ? "Start…" : "Stop…"}
        </button>
        <button id="change" onClick={() => this.setState({ isChanging: true })}>
          Change…
        </button>
        {earlier.length > 0 && (
          <form class="inline" onSubmit={this.rollback}>
            <label for="generation">Generation</label>
            <select id="generation">
              {earlier.map((one) => (
                <option value={one.generation}>
                  {`${one.generation}, ${moment(one.time)}, ${one.author}`}
                </option>
              ))}
            </select>
            <button id="rollback" type="submit">
              Roll back…
            </button>
          </form>
        )}
        <button id="delete" class="danger" onClick={this.remove}>
          Delete…
        </button>
      </div>
    );
  }

  private detail(live: Live) {
    const { selected, configuration } = this.state;
    const element = live.graph.elements.find((one) => one.name === selected);
    if (element === undefined) return null;
    return (
      <section class="detail" aria-live="polite" aria-label="Selected element">
        <h3>
          {element.name} :: {element.class}
        </h3>
        {configuration !== "" && <pre class="lines">{configuration}</pre>}
      </section>
    );
  }

  /** Whether a graph is of the process that runs: an earlier one's looks the same. */
  private isOfNow(live: Live): boolean {
    const { chain } = this.state;
    return chain !== null && !chain.stopped && chain.status?.pid === live.graph.pid;
  }

  private running(live: Live) {
    const shared = { live, selected: this.state.selected, select: this.select };
    return (
      <div class={this.state.stale === "" ? "" : "old"}>
        <section class="card" aria-labelledby="graph-title">
          <h2 id="graph-title">Graph</h2>
          <GraphView {...shared} />
          {this.detail(live)}
        </section>
        <Functions live={live} />
        <Drops chain={this.props.name} live={live} />
        <Queues live={live} />
        <Sessions chain={this.props.name} live={live} />
        <Threads live={live} />
        <Costs chain={this.props.name} />
        <Elements {...shared} />
      </div>
    );
  }

  render() {
    const { chain, live, stale, problem, asked, isChanging, events } = this.state;
    return (
      <div>
        <p>
          <a href="#/">All chains</a>
        </p>
        <h1 id="title" tabindex={-1}>
          {this.props.name}
          {chain !== null && <span class="dim"> generation {chain.generation}</span>}
        </h1>
        {chain !== null && this.conditions(chain)}
        {chain !== null && <ReplicaTable all={chain.status?.replicas ?? []} />}
        {chain !== null && this.actions(chain)}
        <p class="problem" role="alert" id="problem">
          {problem}
        </p>
        {isChanging && chain !== null && (
          <Declare
            chain={chain}
            done={() => {
              this.setState({ isChanging: false });
              void this.looks.now();
            }}
            close={() => this.setState({ isChanging: false })}
          />
        )}
        <p class="stale" role="status" id="stale">
          {stale === "" ? "" : `No rates at the moment: ${stale}`}
        </p>
        {live !== null && this.isOfNow(live) && this.running(live)}
        <Events events={events} />
        <section class="card" aria-labelledby="log-title">
          <h2 id="log-title">Output of its process</h2>
          <Lines id="log" title="Output" action="Show the last lines" fetch={this.log} />
        </section>
        {asked !== null && (
          <Confirmation
            asked={asked}
            close={() => this.setState({ asked: null })}
            failed={this.failed}
          />
        )}
      </div>
    );
  }
}
