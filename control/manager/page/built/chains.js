// All chains.
import { call, reason, Refusal } from "./api.js";
import { Declare } from "./declare.js";
import { Looks } from "./looks.js";
import { Component, h } from "./preact.js";
import { follow } from "./stream.js";
import { Table } from "./tables.js";
async function all() {
    let found = [];
    let next = "";
    while (next !== null) {
        const after = next === "" ? "" : `&after=${encodeURIComponent(next)}`;
        const page = await call("GET", `/v1/chains?limit=500${after}`);
        found = found.concat(page.items);
        next = page.next;
    }
    return found;
}
/** The condition of a chain that says most: the first one that does not hold. */
export function Ready(props) {
    const conditions = props.chain.status?.conditions ?? [];
    const found = conditions.find((one) => !one.holds) ?? conditions[0];
    if (found === undefined)
        return h("span", { class: "bad" }, "not known yet");
    const isMeant = found.reason === "Stopped";
    const kind = found.holds ? "good" : isMeant ? "dim" : "bad";
    return (h("span", { class: kind, title: found.message }, found.holds ? "ready" : found.reason));
}
export class Chains extends Component {
    constructor() {
        super(...arguments);
        this.state = { chains: null, problem: "", isDeclaring: false };
        this.stop = () => { };
        this.looks = new Looks(() => this.look());
    }
    componentDidMount() {
        void this.looks.now();
        this.stop = follow("/v1/events", {
            message: () => this.looks.soon(),
            broken: (problem) => this.setState({ problem }),
            ended: this.props.refused,
        });
    }
    componentWillUnmount() {
        this.stop();
        this.looks.stop();
    }
    async look() {
        try {
            this.setState({ chains: await all(), problem: "" });
        }
        catch (error) {
            if (error instanceof Refusal && error.status === 401)
                this.props.refused(error);
            this.setState({ problem: reason(error) });
        }
    }
    rows(chains) {
        return chains.map((chain) => [
            h("a", { href: `#/chains/${chain.name}` }, chain.name),
            h(Ready, { chain: chain }),
            String(chain.generation),
            String(chain.status?.restarts ?? 0),
            chain.status?.pid == null ? "" : String(chain.status.pid),
            chain.author,
        ]);
    }
    render() {
        const { chains, problem, isDeclaring } = this.state;
        const head = ["chain", "state", "generation", "restarts", "process", "declared by"];
        return (h("div", null,
            h("h1", { id: "title", tabindex: -1 }, "Chains"),
            h("p", { class: "problem", role: "status" }, problem),
            isDeclaring ? (h(Declare, { chain: null, done: this.props.open, close: () => this.setState({ isDeclaring: false }) })) : (h("div", { class: "buttons" },
                h("button", { class: "main", id: "new", onClick: () => this.setState({ isDeclaring: true }) }, "New chain\u2026"))),
            chains !== null && chains.length === 0 && h("p", null, "No chain is declared yet."),
            chains !== null && (h(Table, { title: "Declared chains", id: "chains", head: head, rows: this.rows(chains) }))));
    }
}
