// The page: which of its parts is shown, and who uses it.
import { call, reason, Refusal, useToken } from "./api.js";
import { ChainPage } from "./chain.js";
import { Chains } from "./chains.js";
import { Login } from "./login.js";
import { Component, h, render } from "./preact.js";
/** The chain that the address names: `#/chains/NAME`. */
function named() {
    const found = /^#\/chains\/([a-z0-9-]+)$/.exec(window.location.hash);
    return found?.[1] ?? null;
}
/** A new page: its title, and screen readers begin at its heading as soon as it is drawn. */
function begin() {
    const chain = named();
    document.title = chain === null ? "Thruway manager" : `${chain} – Thruway manager`;
    window.setTimeout(() => document.getElementById("title")?.focus());
}
class App extends Component {
    constructor() {
        super(...arguments);
        this.state = { isIn: null, why: "", chain: named() };
        this.enter = async (token) => {
            useToken(token);
            try {
                await call("GET", "/v1/chains?limit=1");
                this.setState({ isIn: true, why: "" });
                begin();
            }
            catch (error) {
                const isFirst = token === "" && error instanceof Refusal && error.status === 401;
                this.setState({ isIn: false, why: isFirst ? "" : reason(error) });
            }
        };
        this.refused = (refusal) => {
            if (refusal.status === 404) {
                this.open(null);
                return;
            }
            useToken("");
            this.setState({ isIn: false, why: refusal.message });
            begin();
        };
        this.open = (chain) => {
            window.location.hash = chain === null ? "#/" : `#/chains/${chain}`;
        };
    }
    componentDidMount() {
        window.addEventListener("hashchange", () => {
            this.setState({ chain: named() });
            begin();
        });
        // At a forwarded Unix socket, or with a client certificate, no token is needed.
        void this.enter("");
    }
    content() {
        const { isIn, why, chain } = this.state;
        if (isIn === null)
            return h("p", null, "One moment\u2026");
        if (!isIn)
            return h(Login, { why: why, enter: this.enter });
        if (chain === null)
            return h(Chains, { open: this.open, refused: this.refused });
        const back = () => this.open(null);
        return h(ChainPage, { key: chain, name: chain, back: back, refused: this.refused });
    }
    render() {
        return (h("div", null,
            h("header", null,
                h("button", { class: "skip", onClick: () => document.getElementById("title")?.focus() }, "To the content"),
                h("a", { class: "brand", href: "#/" }, "Thruway"),
                this.state.isIn && (h("button", { id: "leave", onClick: () => this.refused(new Refusal(401, "")) }, "Forget the token"))),
            h("main", { id: "main" }, this.content())));
    }
}
const root = document.getElementById("root");
if (root !== null)
    render(h(App, null), root);
