// Server-sent events by fetch: EventSource cannot send a token but in the URL.
import { headers, reason, refusal, Refusal } from "./api.js";
/** Takes a stream of events apart, however its text comes. */
export class Parser {
    constructor() {
        this.text = "";
    }
    push(text) {
        this.text += text;
        const blocks = this.text.split("\n\n");
        this.text = blocks.pop() ?? "";
        return blocks.flatMap(message);
    }
}
function message(block) {
    const found = { type: "", id: "", data: "" };
    const data = [];
    for (const line of block.split("\n")) {
        const colon = line.indexOf(":");
        const name = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (name === "event")
            found.type = value;
        if (name === "id")
            found.id = value;
        if (name === "data")
            data.push(value);
    }
    // A comment keeps the connection alive, and is no message.
    return data.length === 0 ? [] : [{ ...found, data: data.join("\n") }];
}
const WAIT_MIN_MS = 500;
const WAIT_MAX_MS = 10000;
/**
 * Follows a stream until the function that it gives is called. A browser opens six connections to a
 * server at most, so a page that nobody sees has none.
 */
export function follow(target, follower) {
    let isOver = false;
    let last = "";
    let reading = null;
    let timer = 0;
    let wait = WAIT_MIN_MS;
    async function read() {
        const control = new AbortController();
        reading = control;
        try {
            const from = last === "" ? {} : { "Last-Event-ID": last };
            const answer = await fetch(target, {
                headers: headers(from),
                signal: control.signal,
                credentials: "same-origin",
                cache: "no-store",
            });
            if (!answer.ok || answer.body === null)
                throw await refusal(answer);
            await take(answer.body);
            again("the stream ended");
        }
        catch (error) {
            if (control.signal.aborted)
                return;
            const isFinal = error instanceof Refusal && [401, 403, 404].includes(error.status);
            if (isFinal) {
                follower.ended(error);
                stop();
            }
            else {
                again(reason(error));
            }
        }
    }
    async function take(body) {
        const [reader, decoder, parser] = [body.getReader(), new TextDecoder(), new Parser()];
        for (;;) {
            const { done, value } = await reader.read();
            if (done)
                return;
            for (const found of parser.push(decoder.decode(value, { stream: true }))) {
                if (found.id !== "")
                    last = found.id;
                wait = WAIT_MIN_MS;
                follower.broken("");
                follower.message(found);
            }
        }
    }
    function again(why) {
        if (isOver || document.hidden)
            return;
        follower.broken(why);
        timer = window.setTimeout(read, wait);
        wait = Math.min(2 * wait, WAIT_MAX_MS);
    }
    function seen() {
        reading?.abort();
        window.clearTimeout(timer);
        if (!document.hidden)
            void read();
    }
    function stop() {
        isOver = true;
        document.removeEventListener("visibilitychange", seen);
        reading?.abort();
        window.clearTimeout(timer);
    }
    document.addEventListener("visibilitychange", seen);
    if (!document.hidden)
        void read();
    return stop;
}
