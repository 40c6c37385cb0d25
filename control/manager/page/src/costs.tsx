// What a chain's elements take of a processor, as predicted and as observed, when somebody asks.

import { call, path, reason } from "./api.js";
import { count, percent } from "./format.js";
import { Component, h } from "./preact.js";
import { Table } from "./tables.js";

interface ElementComparison {
  element: string;
  class: string;
  share: number;
  batch: number;
  predicted_cycles: number;
  observed_cycles: number | null;
}

interface Comparison {
  elements: ElementComparison[];
  predicted_cycles: number;
  observed_cycles: number;
  packets: number;
  remark: string | null;
  unknown: string[];
}

interface State {
  isAsking: boolean;
  found: Comparison | null;
  problem: string;
}

export class Costs extends Component<{ chain: string }, State> {
  state: State = { isAsking: false, found: null, problem: "" };

  private ask = async (): Promise<void> => {
    if (this.state.isAsking) return;
    this.setState({ isAsking: true, problem: "" });
    try {
      const found = await call<Comparison>("GET", path("chains", this.props.chain, "estimate"));
      this.setState({ isAsking: false, found });
    } catch (error) {
      this.setState({ isAsking: false, found: null, problem: reason(error) });
    }
  };

  private told(): string {
    const { isAsking, found } = this.state;
    if (isAsking) return "The chain is watched for a second…";
    return found === null ? "" : told(found);
  }

  render() {
    const { found, problem } = this.state;
    const head = ["element", "class", "share of packets", "batch", "predicted", "observed", "ratio"];
    return (
      <div>
        <section class="card" aria-labelledby="costs-title">
          <h2 id="costs-title">Cost, predicted and observed</h2>
          <div class="buttons">
            <button id="compare" onClick={this.ask}>
              Compare
            </button>
          </div>
          <p role="status" id="costs-status">
            {this.told()}
          </p>
          {problem !== "" && (
            <p class="problem" role="alert" id="costs-problem">
              {problem}
            </p>
          )}
        </section>
        {found !== null && (
          <Table title="Cycles per packet" id="costs" head={head} rows={found.elements.map(row)} />
        )}
      </div>
    );
  }
}

function row(one: ElementComparison): string[] {
  const observed = one.observed_cycles;
  return [
    one.element,
    one.class,
    percent(one.share),
    one.batch.toFixed(1),
    one.predicted_cycles.toFixed(0),
    observed === null ? "" : observed.toFixed(0),
    observed === null || one.predicted_cycles <= 0
      ? ""
      : (observed / one.predicted_cycles).toFixed(2),
  ];
}

function told(found: Comparison): string {
  const cycles = `${found.predicted_cycles.toFixed(0)} cycles a packet predicted, ${found.observed_cycles.toFixed(0)} observed`;
  const sentences = [`${cycles} (${count(found.packets)} packets).`];
  if (found.remark !== null) sentences.push(found.remark);
  if (found.unknown.length > 0) {
    sentences.push(`Predicted without ${found.unknown.join(", ")}: the host's description lacks them.`);
  }
  return sentences.join(" ");
}
