// Calls of the manager's API. The token stays in this variable: it is in no URL and in no storage,
// and a reload of the page forgets it.
let token = "";
export function useToken(text) {
    token = text;
}
/** A refusal, or a server that does not answer (status 0). */
export class Refusal extends Error {
    constructor(status, detail) {
        super(detail);
        this.status = status;
    }
}
/** A path of the API, each part of it escaped. */
export function path(...parts) {
    return "/v1/" + parts.map(encodeURIComponent).join("/");
}
/** Header fields of a call. */
export function headers(more = {}) {
    return token === "" ? more : { ...more, Authorization: `Bearer ${token}` };
}
/** Why an answer is a refusal. */
export async function refusal(answer) {
    let detail = `the manager answers ${answer.status}`;
    try {
        const problem = (await answer.json());
        detail = problem.field ? `${problem.field}: ${problem.detail}` : problem.detail;
    }
    catch {
        // It is no problem document.
    }
    return new Refusal(answer.status, detail);
}
/** Makes a call. `body` is sent as JSON. */
export async function call(method, target, body, more = {}) {
    const type = body === undefined ? {} : { "Content-Type": "application/json" };
    let answer;
    try {
        answer = await fetch(target, {
            method,
            headers: headers({ ...type, ...more }),
            body: body === undefined ? undefined : JSON.stringify(body),
            credentials: "same-origin",
            cache: "no-store",
        });
    }
    catch {
        throw new Refusal(0, "the manager does not answer");
    }
    if (!answer.ok) {
        throw await refusal(answer);
    }
    return (await answer.json());
}
/** What went wrong, as a sentence. */
export function reason(error) {
    return error instanceof Error ? error.message : String(error);
}
