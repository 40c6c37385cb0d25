// The page: which of its parts is shown, and who uses it.

import { call, reason, Refusal, useToken } from "./api.js";
import { ChainPage } from "./chain.js";
import { Chains } from "./chains.js";
import { Login } from "./login.js";
import { Component, h, render } from "./preact.js";

interface State {
  /** Whether the manager lets this page in; null until it was asked. */
  isIn: boolean | null;
  why: string;
  chain: string | null;
}

/** The chain that the address names: `#/chains/NAME`. */
function named(): string | null {
  const found = /^#\/chains\/([a-z0-9-]+)$/.exec(window.location.hash);
  return found?.[1] ?? null;
}

/** A new page: its title, and screen readers begin at its heading as soon as it is drawn. */
function begin(): void {
  const chain = named();
  document.title = chain === null ? "Thruway manager" : `${chain} – Thruway manager`;
  window.setTimeout(() => document.getElementById("title")?.focus());
}

class App extends Component<unknown, State> {
  state: State = { isIn: null, why: "", chain: named() };

  componentDidMount(): void {
    window.addEventListener("hashchange", () => {
      this.setState({ chain: named() });
      begin();
    });
    // At a forwarded Unix socket, or with a client certificate, no token is needed.
    void this.enter("");
  }

  private enter = async (token: string): Promise<void> => {
    useToken(token);
    try {
      await call("GET", "/v1/chains?limit=1");
      this.setState({ isIn: true, why: "" });
      begin();
    } catch (error) {
      const isFirst = token === "" && error instanceof Refusal && error.status === 401;
      this.setState({ isIn: false, why: isFirst ? "" : reason(error) });
    }
  };

  private refused = (refusal: Refusal): void => {
    if (refusal.status === 404) {
      this.open(null);
      return;
    }
    useToken("");
    this.setState({ isIn: false, why: refusal.message });
    begin();
  };

  private open = (chain: string | null): void => {
    window.location.hash = chain === null ? "#/" : `#/chains/${chain}`;
  };

  private content() {
    const { isIn, why, chain } = this.state;
    if (isIn === null) return <p>One moment…</p>;
    if (!isIn) return <Login why={why} enter={this.enter} />;
    if (chain === null) return <Chains open={this.open} refused={this.refused} />;
    const back = () => this.open(null);
    return <ChainPage key={chain} name={chain} back={back} refused={this.refused} />;
  }

  render() {
    return (
      <div>
        <header>
          <button class="skip" onClick={() => document.getElementById("title")?.focus()}>
            To the content
          </button>
          <a class="brand" href="#/">
            Thruway
          </a>
          {this.state.isIn && (
            <button id="leave" onClick={() => this.refused(new Refusal(401, ""))}>
              Forget the token
            </button>
          )}
        </header>
        <main id="main">{this.content()}</main>
      </div>
    );
  }
}

const root = document.getElementById("root");
if (root !== null) render(<App />, root);
