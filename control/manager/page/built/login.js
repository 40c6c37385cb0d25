// Asks for a token.
import { Component, h } from "./preact.js";
export class Login extends Component {
    constructor() {
        super(...arguments);
        this.state = { token: "" };
        this.change = (event) => {
            this.setState({ token: event.target.value });
        };
        // The policy of the page forbids that forms are sent, so nothing of it gets into a URL.
        this.submit = (event) => {
            event.preventDefault();
            this.props.enter(this.state.token.trim());
        };
    }
    render() {
        return (h("form", { class: "card narrow", onSubmit: this.submit },
            h("h1", { id: "title", tabindex: -1 }, "Token"),
            h("p", null,
                "Make one on the manager's host: ",
                h("code", null, "thruway token create NAME --role operate"),
                ". It stays in this page's memory, and a reload forgets it."),
            h("label", { for: "token" }, "Token"),
            h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: false, value: this.state.token, onInput: this.change }),
            this.props.why !== "" && (h("p", { class: "problem", role: "alert" }, this.props.why)),
            h("div", { class: "buttons" },
                h("button", { class: "main", type: "submit", disabled: this.state.token.trim() === "" }, "Enter"))));
    }
}
