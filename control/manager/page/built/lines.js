// Lines of text that are fetched when somebody asks for them.
import { reason } from "./api.js";
import { Component, h } from "./preact.js";
/** Lines that are shown. */
const LINES_MAX = 200;
export class Lines extends Component {
    constructor() {
        super(...arguments);
        this.state = { lines: null, problem: "" };
        this.look = async () => {
            try {
                this.setState({ lines: await this.props.fetch(), problem: "" });
            }
            catch (error) {
                this.setState({ problem: reason(error) });
            }
        };
    }
    render() {
        const { id, title, action } = this.props;
        const { lines, problem } = this.state;
        return (h("div", null,
            h("div", { class: "buttons" },
                h("button", { id: `list-${id}`, onClick: this.look }, lines === null ? action : `${action} again`),
                h("span", { class: "hint", role: "status" }, lines !== null && shown(lines.length))),
            problem !== "" && (h("p", { class: "problem", role: "alert" }, problem)),
            lines !== null && lines.length > 0 && (h("pre", { class: "lines", id: `${id}-list`, tabindex: 0, "aria-label": title }, lines.slice(0, LINES_MAX).join("\n")))));
    }
}
function shown(count) {
    if (count === 0)
        return "none";
    return count > LINES_MAX ? `the first ${LINES_MAX} of ${count} that came` : `${count}`;
}
