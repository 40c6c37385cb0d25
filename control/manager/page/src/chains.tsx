// All chains.

import { call, Chain, reason, Refusal } from "./api.js";
import { Declare } from "./declare.js";
import { Looks } from "./looks.js";
import { Component, h } from "./preact.js";
import { follow } from "./stream.js";
import { Table } from "./tables.js";

interface Props {
  open: (chain: string) => void;
  refused: (refusal: Refusal) => void;
}

interface State {
  chains: Chain[] | null;
  problem: string;
  isDeclaring: boolean;
}

interface Page {
  items: Chain[];
  next: string | null;
}

async function all(): Promise<Chain[]> {
  let found: Chain[] = [];
  let next: string | null = "";
  while (next !== null) {
    const after: string = next === "" ? "" : `&after=${encodeURIComponent(next)}`;
    const page: Page = await call<Page>("GET", `/v1/chains?limit=500${after}`);
    found = found.concat(page.items);
    next = page.next;
  }
  return found;
}

/** The condition of a chain that says most: the first one that does not hold. */
export function Ready(props: { chain: Chain }) {
  const conditions = props.chain.status?.conditions ?? [];
  const found = conditions.find((one) => !one.holds) ?? conditions[0];
  if (found === undefined) return <span class="bad">not known yet</span>;
  const isMeant = found.reason === "Stopped";
  const kind = found.holds ? "good" : isMeant ? "dim" : "bad";
  return (
    <span class={kind} title={found.message}>
      {found.holds ? "ready" : found.reason}
    </span>
  );
}

export class Chains extends Component<Props, State> {
  state: State = { chains: null, problem: "", isDeclaring: false };
  private stop: () => void = () => {};
  private looks = new Looks(() => this.look());

  componentDidMount(): void {
    void this.looks.now();
    this.stop = follow("/v1/events", {
      message: () => this.looks.soon(),
      broken: (problem) => this.setState({ problem }),
      ended: this.props.refused,
    });
  }

  componentWillUnmount(): void {
    this.stop();
    this.looks.stop();
  }

  private async look(): Promise<void> {
    try {
      this.setState({ chains: await all(), problem: "" });
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) this.props.refused(error);
      this.setState({ problem: reason(error) });
    }
  }

  private rows(chains: Chain[]) {
    return chains.map((chain) => [
      <a href={`#/chains/${chain.name}`}>{chain.name}</a>,
      <Ready chain={chain} />,
      String(chain.generation),
      String(chain.status?.restarts ?? 0),
      chain.status?.pid == null ? "" : String(chain.status.pid),
      chain.author,
    ]);
  }

  render() {
    const { chains, problem, isDeclaring } = this.state;
    const head = ["chain", "state", "generation", "restarts", "process", "declared by"];
    return (
      <div>
        <h1 id="title" tabindex={-1}>
          Chains
        </h1>
        <p class="problem" role="status">
          {problem}
        </p>
        {isDeclaring ? (
          <Declare
            chain={null}
            done={this.props.open}
            close={() => this.setState({ isDeclaring: false })}
          />
        ) : (
          <div class="buttons">
            <button class="main" id="new" onClick={() => this.setState({ isDeclaring: true })}>
              New chain…
            </button>
          </div>
        )}
        {chains !== null && chains.length === 0 && <p>No chain is declared yet.</p>}
        {chains !== null && (
          <Table title="Declared chains" id="chains" head={head} rows={this.rows(chains)} />
        )}
      </div>
    );
  }
}
