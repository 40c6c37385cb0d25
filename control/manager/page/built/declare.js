// A form that declares a chain, or changes one.
import { call, path, reason } from "./api.js";
import { Confirmation } from "./dialog.js";
import { Component, h } from "./preact.js";
/** `NAME=VALUE` a line, as a map. */
export function pairs(text) {
    const found = {};
    for (const line of text.split("\n")) {
        if (line.trim() === "")
            continue;
        const at = line.indexOf("=");
        if (at < 1)
            throw new Error(`'${line}' is not NAME=VALUE`);
        found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
    }
    return found;
}
function lines(map) {
    const all = Object.entries(map ?? {});
    return all.map(([name, value]) => `${name}=${value}`).join("\n");
}
export class Declare extends Component {
    constructor(props) {
        super(props);
        /** Asks what the change would do, and shows it. */
        this.check = async (event) => {
            event.preventDefault();
            this.setState({ problem: "" });
            try {
                const { chain, done } = this.props;
                const spec = this.spec();
                const name = this.state.name.trim();
                const target = path("chains", name);
                // What another operator does meanwhile is not overwritten.
                const only = chain === null ? { "If-None-Match": "*" } : { "If-Match": `"${chain.generation}"` };
                const change = await call("PUT", `${target}?dry_run=true`, spec, only);
                const asked = {
                    title: chain === null ? `Declare chain ${name}` : `Change chain ${name}`,
                    text: "The manager then runs the chain as it is declared here.",
                    change,
                    action: "Declare",
                    make: async () => {
                        await call("PUT", target, spec, only);
                        done(name);
                    },
                };
                this.setState({ asked });
            }
            catch (error) {
                this.failed(error);
            }
        };
        this.failed = (error) => this.setState({ problem: reason(error) });
        const spec = props.chain?.spec;
        this.state = {
            name: props.chain?.name ?? "",
            configuration: spec?.configuration ?? "",
            variables: lines(spec?.variables),
            functions: lines(spec?.functions),
            threads: spec?.threads === undefined ? "" : String(spec.threads),
            cores: spec?.cores ?? "",
            problem: "",
            asked: null,
        };
    }
    spec() {
        const { configuration, variables, functions, threads, cores } = this.state;
        const spec = { configuration };
        const [values, uses] = [pairs(variables), pairs(functions)];
        if (Object.keys(values).length > 0)
            spec.variables = values;
        if (Object.keys(uses).length > 0)
            spec.functions = uses;
        if (threads.trim() !== "") {
            if (!/^\d+$/.test(threads.trim()))
                throw new Error(`threads: '${threads}' is no number`);
            spec.threads = Number(threads.trim());
        }
        if (cores.trim() !== "")
            spec.cores = cores.trim();
        if (this.props.chain?.stopped)
            spec.stopped = true;
        return spec;
    }
    field(id, label, rows, hint) {
        const change = (event) => {
            const value = event.target.value;
            this.setState({ [id]: value });
        };
        // Tables of the page have names like these, too.
        const field = `field-${id}`;
        const shared = { id: field, value: this.state[id], onInput: change, spellcheck: false };
        const described = { ...shared, "aria-describedby": `${field}-hint`, autocomplete: "off" };
        return (h("div", { class: "field" },
            h("label", { for: field }, label),
            rows > 1 ? h("textarea", { rows: rows, ...described }) : h("input", { ...described }),
            h("p", { class: "hint", id: `${field}-hint` }, hint)));
    }
    render() {
        const { chain, close } = this.props;
        const { problem, asked } = this.state;
        return (h("form", { class: "card", onSubmit: this.check, "aria-labelledby": "declare-title" },
            h("h2", { id: "declare-title" }, chain === null ? "New chain" : `Change ${chain.name}`),
            chain === null && this.field("name", "Name", 1, "Lower-case letters, digits, hyphens."),
            this.field("configuration", "Configuration", 14, "Text in the Click language."),
            this.field("variables", "Variables", 3, "NAME=VALUE, one a line."),
            this.field("functions", "Functions", 2, "VARIABLE=NAME@VERSION ARGUMENTS, one a line."),
            this.field("threads", "Threads", 1, "1 to 256; one if empty."),
            this.field("cores", "Cores", 1, "One for each thread: 2-5,8. Any if empty."),
            problem !== "" && (h("pre", { class: "problem", role: "alert", id: "declare-problem" }, problem)),
            h("div", { class: "buttons" },
                h("button", { class: "main", type: "submit", id: "check" }, "Check\u2026"),
                h("button", { type: "button", id: "close-form", onClick: close }, "Cancel")),
            asked !== null && (h(Confirmation, { asked: asked, close: () => this.setState({ asked: null }), failed: this.failed }))));
    }
}
