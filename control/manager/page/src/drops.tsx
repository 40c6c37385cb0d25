// Reasons for which packets did not go on, and examples of such packets when somebody asks for them.

import { call, path, reason } from "./api.js";
import { bytes, count, rate } from "./format.js";
import { Component, h } from "./preact.js";
import { Live } from "./rates.js";
import { Table } from "./tables.js";

interface Example {
  input: number;
  fate: string;
  length: number;
  summary: string;
  bytes: string;
}

interface Found {
  looked_at: number;
  examples: Example[];
}

/** An element and one of its reasons. */
interface Asked {
  element: string;
  reason: string;
}

interface Props {
  chain: string;
  live: Live;
}

interface State {
  asked: Asked | null;
  /** Null while they are looked for. */
  found: Found | null;
  problem: string;
}

/** What became of an example, in words; nothing more is to be said of a dropped one. */
const FATES: Record<string, string> = {
  diverted: ", left another way",
  perhaps: ", dropped among others: perhaps for another reason",
};

export class Drops extends Component<Props, State> {
  state: State = { asked: null, found: null, problem: "" };

  private find = async (asked: Asked): Promise<void> => {
    this.setState({ asked, found: null, problem: "" });
    // Meanwhile somebody may ask for others.
    const still = (change: Partial<State>) =>
      this.setState((state) => (state.asked === asked ? change : {}));
    try {
      const target = path("chains", this.props.chain, "examples");
      still({ found: await call<Found>("POST", target, asked) });
    } catch (error) {
      still({ problem: reason(error) });
    }
  };

  /** The most frequent reasons first. */
  private rows() {
    const { graph, drops } = this.props.live;
    const all = graph.elements.flatMap((one, at) => {
      return one.drops.map((drop, nth) => ({ name: one.name, ...drop, now: drops[at]?.[nth] }));
    });
    all.sort((a, b) => b.packets - a.packets);
    return all.map((one) => [
      one.name,
      one.reason,
      one.fate,
      rate(one.now ?? null),
      count(one.packets),
      <button
        class="link"
        aria-label={`Examples of packets of ${one.name}: ${one.reason}`}
        onClick={() => this.find({ element: one.name, reason: one.reason })}
      >
        Examples
      </button>,
    ]);
  }

  private examples(asked: Asked) {
    const { found, problem } = this.state;
    const all = found?.examples ?? [];
    return (
      <section class="card" aria-labelledby="examples-title">
        <h2 id="examples-title">
          Examples: {asked.element}, {asked.reason}
        </h2>
        <p role="status" id="examples-status">
          {problem === "" && told(found)}
        </p>
        {problem !== "" && (
          <p class="problem" role="alert" id="examples-problem">
            {problem}
          </p>
        )}
        {all.length > 0 && (
          <ol id="examples">
            {all.map((one) => (
              <li>
                {one.summary}, at input {one.input}
                {FATES[one.fate] ?? ""}
                <pre class="lines" tabindex={0} aria-label={`Bytes of ${one.summary}`}>
                  {bytes(one.bytes)}
                </pre>
              </li>
            ))}
          </ol>
        )}
        <div class="buttons">
          <button id="close-examples" onClick={() => this.setState({ asked: null })}>
            Close
          </button>
        </div>
      </section>
    );
  }

  render() {
    const { asked } = this.state;
    const head = ["element", "reason", "what became of them", "rate", "packets", "which"];
    return (
      <div>
        <Table title="Packets that did not go on" id="drops" head={head} rows={this.rows()} />
        {asked !== null && this.examples(asked)}
      </div>
    );
  }
}

function told(found: Found | null): string {
  if (found === null) return "Packets are looked at, for three seconds at most…";
  const packets = `${count(found.looked_at)} packets came to the element and were looked at`;
  return found.examples.length > 0 ? `${packets}.` : `${packets}; none of them was one.`;
}
