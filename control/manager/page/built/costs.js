// What a chain's elements take of a processor, as predicted and as observed, when somebody asks.
import { call, path, reason } from "./api.js";
import { count, percent } from "./format.js";
import { Component, h } from "./preact.js";
import { Table } from "./tables.js";
export class Costs extends Component {
    constructor() {
        super(...arguments);
        this.state = { isAsking: false, found: null, problem: "" };
        this.ask = async () => {
            if (this.state.isAsking)
                return;
            this.setState({ isAsking: true, problem: "" });
            try {
                const found = await call("GET", path("chains", this.props.chain, "estimate"));
                this.setState({ isAsking: false, found });
            }
            catch (error) {
                this.setState({ isAsking: false, found: null, problem: reason(error) });
            }
        };
    }
    told() {
        const { isAsking, found } = this.state;
        if (isAsking)
            return "The chain is watched for a second…";
        return found === null ? "" : told(found);
    }
    render() {
        const { found, problem } = this.state;
        const head = ["element", "class", "share of packets", "batch", "predicted", "observed", "ratio"];
        return (h("div", null,
            h("section", { class: "card", "aria-labelledby": "costs-title" },
                h("h2", { id: "costs-title" }, "Cost, predicted and observed"),
                h("div", { class: "buttons" },
                    h("button", { id: "compare", onClick: this.ask }, "Compare")),
                h("p", { role: "status", id: "costs-status" }, this.told()),
                problem !== "" && (h("p", { class: "problem", role: "alert", id: "costs-problem" }, problem))),
            found !== null && (h(Table, { title: "Cycles per packet", id: "costs", head: head, rows: found.elements.map(row) }))));
    }
}
function row(one) {
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
function told(found) {
    const cycles = `${found.predicted_cycles.toFixed(0)} cycles a packet predicted, ${found.observed_cycles.toFixed(0)} observed`;
    const sentences = [`${cycles} (${count(found.packets)} packets).`];
    if (found.remark !== null)
        sentences.push(found.remark);
    if (found.unknown.length > 0) {
        sentences.push(`Predicted without ${found.unknown.join(", ")}: the host's description lacks them.`);
    }
    return sentences.join(" ");
}
