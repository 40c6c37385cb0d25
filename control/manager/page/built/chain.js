// One chain: its state, its graph with live rates, its functions, and what may be done to it.
import { call, path, reason, Refusal, } from "./api.js";
import { Costs } from "./costs.js";
import { Declare } from "./declare.js";
import { Confirmation } from "./dialog.js";
import { Drops } from "./drops.js";
import { moment } from "./format.js";
import { GraphView } from "./graph.js";
import { Lines } from "./lines.js";
import { Looks } from "./looks.js";
import { Component, h } from "./preact.js";
import { between } from "./rates.js";
import { Sessions } from "./sessions.js";
import { follow } from "./stream.js";
import { Elements, Events, Functions, Queues, ReplicaTable, Threads } from "./tables.js";
const EVENTS_MAX = 100;
/** Status of a problem: the chain does not run. */
const NOT_RUNNING = 409;
export class ChainPage extends Component {
    constructor() {
        super(...arguments);
        this.state = {
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
        this.stops = [];
        this.looks = new Looks(() => this.look());
        this.event = (message) => {
            if (message.type !== "")
                return;
            const event = JSON.parse(message.data);
            // Several may come in one piece, before the page is drawn with the first of them.
            this.setState(({ events }) => ({ events: [...events, event].slice(-EVENTS_MAX) }));
            this.looks.soon();
        };
        this.graph = (message) => {
            if (message.type === "problem") {
                const { status, detail } = JSON.parse(message.data);
                // Of what does not run any more, the last numbers would look like those of what runs next.
                const isOver = status === NOT_RUNNING;
                this.setState(({ live }) => ({ live: isOver ? null : live, stale: detail }));
                return;
            }
            const graph = JSON.parse(message.data);
            this.setState(({ live }) => {
                const before = live?.graph ?? null;
                // Several readers share what the manager reads, so one may get the same graph again.
                const isSame = before?.time_us === graph.time_us && before.pid === graph.pid;
                return { live: isSame ? live : between(before, graph), stale: "" };
            });
        };
        this.log = async () => {
            return (await call("GET", `${this.target}/log`)).lines;
        };
        this.failed = (error) => this.setState({ problem: reason(error) });
        this.select = async (selected) => {
            this.setState({ selected, configuration: "" });
            try {
                const target = path("chains", this.props.name, "handlers", `${selected}.config`);
                const { value } = await call("GET", target);
                if (this.state.selected === selected)
                    this.setState({ configuration: value });
            }
            catch (error) {
                this.failed(error);
            }
        };
        /** Asks what a change would do, shows it, and makes it when that is confirmed. */
        this.ask = async (words, [method, target, body], then = () => { }) => {
            const { chain } = this.state;
            if (chain === null)
                return;
            this.setState({ problem: "" });
            const only = { "If-Match": `"${chain.generation}"` };
            try {
                const change = await call(method, `${target}?dry_run=true`, body, only);
                const make = async () => {
                    await call(method, target, body, only);
                    then();
                    await this.looks.now();
                };
                this.setState({ asked: { ...words, change, make } });
            }
            catch (error) {
                this.failed(error);
            }
        };
        this.stopOrStart = () => {
            const { chain } = this.state;
            if (chain?.spec === undefined)
                return;
            const action = chain.stopped ? "Start" : "Stop";
            const text = chain.stopped
                ? "The manager starts its data plane."
                : "Its data plane ends, and its sessions with it. It stays declared.";
            const spec = { ...chain.spec, stopped: !chain.stopped };
            void this.ask({ title: `${action} ${chain.name}`, text, action }, ["PUT", this.target, spec]);
        };
        this.rollback = (event) => {
            event.preventDefault();
            const { chain } = this.state;
            const chosen = document.getElementById("generation");
            if (chain === null || chosen === null || chosen.value === "")
                return;
            const to = Number(chosen.value);
            const title = `Roll ${chain.name} back`;
            const text = `Generation ${to} is declared again, as a new one.`;
            const target = `${this.target}/rollback`;
            void this.ask({ title, text, action: "Roll back" }, ["POST", target, { to }]);
        };
        this.remove = () => {
            const { name } = this.props;
            const text = "Its data plane ends. Its history stays, and a rollback brings it back.";
            const words = { title: `Delete ${name}`, text, action: "Delete" };
            void this.ask(words, ["DELETE", this.target, undefined], this.props.back);
        };
    }
    get target() {
        return path("chains", this.props.name);
    }
    componentDidMount() {
        void this.looks.now();
        const chain = encodeURIComponent(this.props.name);
        this.stops = [
            follow(`/v1/events?chain=${chain}`, {
                message: this.event,
                broken: () => { },
                ended: this.props.refused,
            }),
            follow(`${this.target}/graph?follow=true`, {
                message: this.graph,
                broken: (stale) => this.setState({ stale }),
                ended: this.props.refused,
            }),
        ];
    }
    componentWillUnmount() {
        this.stops.forEach((stop) => stop());
        this.looks.stop();
    }
    async look() {
        try {
            const chain = await call("GET", this.target);
            const page = await call("GET", `${this.target}/generations`);
            this.setState({ chain, generations: page.items });
        }
        catch (error) {
            if (error instanceof Refusal && error.status === 401)
                this.props.refused(error);
            this.failed(error);
        }
    }
    conditions(chain) {
        return (h("ul", { class: "conditions", "aria-live": "polite" }, (chain.status?.conditions ?? []).map((one) => (h("li", null,
            h("span", { class: one.holds ? "good" : "bad" },
                one.holds ? "✓" : "✗",
                " ",
                one.kind,
                ": ",
                one.reason),
            " ",
            h("span", { class: "dim" }, one.message))))));
    }
    actions(chain) {
        const earlier = this.state.generations.filter((one) => one.generation !== chain.generation && !one.deleted);
        return (h("div", { class: "buttons" },
            h("button", { id: "stop", onClick: this.stopOrStart }, chain.stopped ? "Start…" : "Stop…"),
            h("button", { id: "change", onClick: () => this.setState({ isChanging: true }) }, "Change\u2026"),
            earlier.length > 0 && (h("form", { class: "inline", onSubmit: this.rollback },
                h("label", { for: "generation" }, "Generation"),
                h("select", { id: "generation" }, earlier.map((one) => (h("option", { value: one.generation }, `${one.generation}, ${moment(one.time)}, ${one.author}`)))),
                h("button", { id: "rollback", type: "submit" }, "Roll back\u2026"))),
            h("button", { id: "delete", class: "danger", onClick: this.remove }, "Delete\u2026")));
    }
    detail(live) {
        const { selected, configuration } = this.state;
        const element = live.graph.elements.find((one) => one.name === selected);
        if (element === undefined)
            return null;
        return (h("section", { class: "detail", "aria-live": "polite", "aria-label": "Selected element" },
            h("h3", null,
                element.name,
                " :: ",
                element.class),
            configuration !== "" && h("pre", { class: "lines" }, configuration)));
    }
    /** Whether a graph is of the process that runs: an earlier one's looks the same. */
    isOfNow(live) {
        const { chain } = this.state;
        return chain !== null && !chain.stopped && chain.status?.pid === live.graph.pid;
    }
    running(live) {
        const shared = { live, selected: this.state.selected, select: this.select };
        return (h("div", { class: this.state.stale === "" ? "" : "old" },
            h("section", { class: "card", "aria-labelledby": "graph-title" },
                h("h2", { id: "graph-title" }, "Graph"),
                h(GraphView, { ...shared }),
                this.detail(live)),
            h(Functions, { live: live }),
            h(Drops, { chain: this.props.name, live: live }),
            h(Queues, { live: live }),
            h(Sessions, { chain: this.props.name, live: live }),
            h(Threads, { live: live }),
            h(Costs, { chain: this.props.name }),
            h(Elements, { ...shared })));
    }
    render() {
        const { chain, live, stale, problem, asked, isChanging, events } = this.state;
        return (h("div", null,
            h("p", null,
                h("a", { href: "#/" }, "All chains")),
            h("h1", { id: "title", tabindex: -1 },
                this.props.name,
                chain !== null && h("span", { class: "dim" },
                    " generation ",
                    chain.generation)),
            chain !== null && this.conditions(chain),
            chain !== null && h(ReplicaTable, { all: chain.status?.replicas ?? [] }),
            chain !== null && this.actions(chain),
            h("p", { class: "problem", role: "alert", id: "problem" }, problem),
            isChanging && chain !== null && (h(Declare, { chain: chain, done: () => {
                    this.setState({ isChanging: false });
                    void this.looks.now();
                }, close: () => this.setState({ isChanging: false }) })),
            h("p", { class: "stale", role: "status", id: "stale" }, stale === "" ? "" : `No rates at the moment: ${stale}`),
            live !== null && this.isOfNow(live) && this.running(live),
            h(Events, { events: events }),
            h("section", { class: "card", "aria-labelledby": "log-title" },
                h("h2", { id: "log-title" }, "Output of its process"),
                h(Lines, { id: "log", title: "Output", action: "Show the last lines", fetch: this.log })),
            asked !== null && (h(Confirmation, { asked: asked, close: () => this.setState({ asked: null }), failed: this.failed }))));
    }
}
