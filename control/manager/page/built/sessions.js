// Sessions: their counts, and a list of the first ones when it is asked for.
import { call, path, reason } from "./api.js";
import { count } from "./format.js";
import { Component, h } from "./preact.js";
/** Lines that are shown. */
const LINES_MAX = 200;
export class Sessions extends Component {
    constructor() {
        super(...arguments);
        this.state = { lines: null, problem: "" };
        this.list = async () => {
            const { chain, live } = this.props;
            const { sessions } = live.graph;
            const element = sessions === null ? undefined : live.graph.elements[sessions.element];
            if (element === undefined)
                return;
            try {
                const target = path("chains", chain, "handlers", `${element.name}.flows`);
                const { value } = await call("GET", target);
                const lines = value.split("\n").filter((line) => line !== "" && !line.startsWith("next "));
                this.setState({ lines, problem: "" });
            }
            catch (error) {
                this.setState({ problem: reason(error) });
            }
        };
    }
    render() {
        const { sessions } = this.props.live.graph;
        if (sessions === null)
            return null;
        const { lines, problem } = this.state;
        return (h("section", { class: "card", "aria-labelledby": "sessions-title" },
            h("h2", { id: "sessions-title" }, "Sessions"),
            h("p", { id: "sessions" },
                count(sessions.now),
                " now, ",
                count(sessions.created),
                " begun, ",
                count(sessions.expired),
                " ",
                "timed out, ",
                count(sessions.closed),
                " closed, ",
                count(sessions.refused),
                " packets without room"),
            h("div", { class: "buttons" },
                h("button", { id: "list-sessions", onClick: this.list }, "List sessions")),
            problem !== "" && (h("p", { class: "problem", role: "alert" }, problem)),
            lines !== null && (h("div", null,
                h("p", null, lines.length > LINES_MAX
                    ? `The first ${LINES_MAX} sessions; thruway ctl flows lists all:`
                    : `${lines.length} sessions:`),
                h("pre", { class: "lines", id: "session-list", tabindex: 0, "aria-label": "Sessions" }, lines.slice(0, LINES_MAX).join("\n"))))));
    }
}
