// A change is shown before it is made: what it would do, and whether it is to be done.
import { Component, h } from "./preact.js";
export class Confirmation extends Component {
    constructor() {
        super(...arguments);
        this.dialog = null;
        this.before = null;
        this.state = { isBusy: false };
        // Of the browser's own: it keeps the focus inside and ends with Escape.
        this.open = (dialog) => {
            if (dialog === null || this.dialog !== null)
                return;
            this.before = document.activeElement;
            this.dialog = dialog;
            dialog.showModal();
        };
        this.make = async () => {
            const { asked, close, failed } = this.props;
            this.setState({ isBusy: true });
            try {
                await asked.make();
            }
            catch (error) {
                failed(error);
            }
            close();
        };
    }
    componentWillUnmount() {
        if (this.before instanceof HTMLElement)
            this.before.focus();
    }
    render() {
        const { asked, close } = this.props;
        const { change } = asked;
        return (h("dialog", { ref: this.open, onClose: close, "aria-labelledby": "dialog-title" },
            h("h2", { id: "dialog-title" }, asked.title),
            h("p", null, asked.text),
            change.warnings !== "" && h("pre", { class: "warnings" }, change.warnings),
            change.changed ? h(Diff, { text: change.diff }) : h("p", null, "Nothing would change."),
            h("div", { class: "buttons" },
                h("button", { id: "confirm", class: "main", disabled: this.state.isBusy, onClick: this.make }, asked.action),
                h("button", { id: "cancel", onClick: close }, "Cancel"))));
    }
}
/** A unified diff. */
export function Diff(props) {
    const kind = (line) => {
        if (line.startsWith("+"))
            return "added";
        return line.startsWith("-") ? "removed" : "";
    };
    const lines = props.text.replace(/\n$/, "").split("\n");
    return (h("pre", { class: "diff", tabindex: 0, "aria-label": "Difference" }, lines.map((line) => (h("span", { class: kind(line) }, line + "\n")))));
}
