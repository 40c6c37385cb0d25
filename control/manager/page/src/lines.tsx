// Lines of text that are fetched when somebody asks for them.

import { reason } from "./api.js";
import { Component, h } from "./preact.js";

/** Lines that are shown. */
const LINES_MAX = 200;

interface Props {
  id: string;
  title: string;
  /** Words of the button. */
  action: string;
  fetch: () => Promise<string[]>;
}

interface State {
  lines: string[] | null;
  problem: string;
}

export class Lines extends Component<Props, State> {
  state: State = { lines: null, problem: "" };

  private look = async (): Promise<void> => {
    try {
      this.setState({ lines: await this.props.fetch(), problem: "" });
    } catch (error) {
      this.setState({ problem: reason(error) });
    }
  };

  render() {
    const { id, title, action } = this.props;
    const { lines, problem } = this.state;
    return (
      <div>
        <div class="buttons">
          <button id={`list-${id}`} onClick={this.look}>
            {lines === null ? action : `${action} again`}
          </button>
          <span class="hint" role="status">
            {lines !== null && shown(lines.length)}
          </span>
        </div>
        {problem !== "" && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        {lines !== null && lines.length > 0 && (
          <pre class="lines" id={`${id}-list`} tabindex={0} aria-label={title}>
            {lines.slice(0, LINES_MAX).join("\n")}
          </pre>
        )}
      </div>
    );
  }
}

function shown(count: number): string {
  if (count === 0) return "none";
  return count > LINES_MAX ? `the first ${LINES_MAX} of ${count} that came` : `${count}`;
}
