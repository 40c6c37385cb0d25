// A change is shown before it is made: what it would do, and whether it is to be done.

import { Change } from "./api.js";
import { Component, h } from "./preact.js";

/** A change that waits for its confirmation. */
export interface Asked {
  title: string;
  /** What it means, one sentence. */
  text: string;
  change: Change;
  /** Words of the button that makes it. */
  action: string;
  make: () => Promise<void>;
}

interface Props {
  asked: Asked;
  close: () => void;
  failed: (error: unknown) => void;
}

export class Confirmation extends Component<Props, { isBusy: boolean }> {
  private dialog: HTMLDialogElement | null = null;
  private before: Element | null = null;
  state = { isBusy: false };

  // Of the browser's own: it keeps the focus inside and ends with Escape.
  private open = (dialog: HTMLDialogElement | null): void => {
    if (dialog === null || this.dialog !== null) return;
    this.before = document.activeElement;
    this.dialog = dialog;
    dialog.showModal();
  };

  componentWillUnmount(): void {
    if (this.before instanceof HTMLElement) this.before.focus();
  }

  private make = async (): Promise<void> => {
    const { asked, close, failed } = this.props;
    this.setState({ isBusy: true });
    try {
      await asked.make();
    } catch (error) {
      failed(error);
    }
    close();
  };

  render() {
    const { asked, close } = this.props;
    const { change } = asked;
    return (
      <dialog ref={this.open} onClose={close} aria-labelledby="dialog-title">
        <h2 id="dialog-title">{asked.title}</h2>
        <p>{asked.text}</p>
        {change.warnings !== "" && <pre class="warnings">{change.warnings}</pre>}
        {change.changed ? <Diff text={change.diff} /> : <p>Nothing would change.</p>}
        <div class="buttons">
          <button id="confirm" class="main" disabled={this.state.isBusy} onClick={this.make}>
            {asked.action}
          </button>
          <button id="cancel" onClick={close}>
            Cancel
          </button>
        </div>
      </dialog>
    );
  }
}

/** A unified diff. */
export function Diff(props: { text: string }) {
  const kind = (line: string) => {
    if (line.startsWith("+")) return "added";
    return line.startsWith("-") ? "removed" : "";
  };
  const lines = props.text.replace(/\n$/, "").split("\n");
  return (
    <pre class="diff" tabindex={0} aria-label="Difference">
      {lines.map((line) => (
        <span class={kind(line)}>{line + "\n"}</span>
      ))}
    </pre>
  );
}
