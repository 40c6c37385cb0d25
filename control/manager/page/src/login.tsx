// Asks for a token.

import { Component, h } from "./preact.js";

interface Props {
  /** Why the last one was refused; empty at first. */
  why: string;
  enter: (token: string) => void;
}

export class Login extends Component<Props, { token: string }> {
  state = { token: "" };

  private change = (event: Event): void => {
    this.setState({ token: (event.target as HTMLInputElement).value });
  };

  // The policy of the page forbids that forms are sent, so nothing of it gets into a URL.
  private submit = (event: Event): void => {
    event.preventDefault();
    this.props.enter(this.state.token.trim());
  };

  render() {
    return (
      <form class="card narrow" onSubmit={this.submit}>
        <h1 id="title" tabindex={-1}>
          Token
        </h1>
        <p>
          Make one on the manager's host: <code>thruway token create NAME --role operate</code>. It
          stays in this page's memory, and a reload forgets it.
        </p>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={this.state.token}
          onInput={this.change}
        />
        {this.props.why !== "" && (
          <p class="problem" role="alert">
            {this.props.why}
          </p>
        )}
        <div class="buttons">
          <button class="main" type="submit" disabled={this.state.token.trim() === ""}>
            Enter
          </button>
        </div>
      </form>
    );
  }
}
