// Reasons for which packets did not go on, and examples of such packets when somebody asks for them.
import { call, path, reason } from "./api.js";
import { bytes, count, rate } from "./format.js";
import { Component, h } from "./preact.js";
import { Table } from "./tables.js";
/** What became of an example, in words; nothing more is to be said of a dropped one. */
const FATES = {
    diverted: ", left another way",
    perhaps: ", dropped among others: perhaps for another reason",
};
export class Drops extends Component {
    constructor() {
        super(...arguments);
        this.state = { asked: null, found: null, problem: "" };
        this.find = async (asked) => {
            this.setState({ asked, found: null, problem: "" });
            // Meanwhile somebody may ask for others.
            const still = (change) => this.setState((state) => (state.asked === asked ? change : {}));
            try {
                const target = path("chains", this.props.chain, "examples");
                still({ found: await call("POST", target, asked) });
            }
            catch (error) {
                still({ problem: reason(error) });
            }
        };
    }
    /** The most frequent reasons first. */
    rows() {
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
            h("button", { class: "link", "aria-label": `Examples of packets of ${one.name}: ${one.reason}`, onClick: () => this.find({ element: one.name, reason: one.reason }) }, "Examples"),
        ]);
    }
    examples(asked) {
        const { found, problem } = this.state;
        const all = found?.examples ?? [];
        return (h("section", { class: "card", "aria-labelledby": "examples-title" },
            h("h2", { id: "examples-title" },
                "Examples: ",
                asked.element,
                ", ",
                asked.reason),
            h("p", { role: "status", id: "examples-status" }, problem === "" && told(found)),
            problem !== "" && (h("p", { class: "problem", role: "alert", id: "examples-problem" }, problem)),
            all.length > 0 && (h("ol", { id: "examples" }, all.map((one) => (h("li", null,
                one.summary,
                ", at input ",
                one.input,
                FATES[one.fate] ?? "",
                h("pre", { class: "lines", tabindex: 0, "aria-label": `Bytes of ${one.summary}` }, bytes(one.bytes))))))),
            h("div", { class: "buttons" },
                h("button", { id: "close-examples", onClick: () => this.setState({ asked: null }) }, "Close"))));
    }
    render() {
        const { asked } = this.state;
        const head = ["element", "reason", "what became of them", "rate", "packets", "which"];
        return (h("div", null,
            h(Table, { title: "Packets that did not go on", id: "drops", head: head, rows: this.rows() }),
            asked !== null && this.examples(asked)));
    }
}
function told(found) {
    if (found === null)
        return "Packets are looked at, for three seconds at most…";
    const packets = `${count(found.looked_at)} packets came to the element and were looked at`;
    return found.examples.length > 0 ? `${packets}.` : `${packets}; none of them was one.`;
}
