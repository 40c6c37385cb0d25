// Server-sent events by fetch: EventSource cannot send a token but in the URL.

import { headers, reason, refusal, Refusal } from "./api.js";

export interface Message {
  type: string;
  id: string;
  data: string;
}

/** Takes a stream of events apart, however its text comes. */
export class Parser {
  private text = "";

  push(text: string): Message[] {
    this.text += text;
    const blocks = this.text.split("\n\n");
    this.text = blocks.pop() ?? "";
    return blocks.flatMap(message);
  }
}

function message(block: string): Message[] {
  const found: Message = { type: "", id: "", data: "" };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") found.type = value;
    if (name === "id") found.id = value;
    if (name === "data") data.push(value);
  }
  // A comment keeps the connection alive, and is no message.
  return data.length === 0 ? [] : [{ ...found, data: data.join("\n") }];
}

const WAIT_MIN_MS = 500;
const WAIT_MAX_MS = 10_000;

/** Who follows a stream. */
export interface Follower {
  /** A message came. */
  message(message: Message): void;
  /** The stream is broken for this reason and will be tried again; "" when it goes on. */
  broken(why: string): void;
  /** The stream ended for good: the token is refused, or there is no such thing. */
  ended(refusal: Refusal): void;
}

/**
 * Follows a stream until the function that it gives is called. A browser opens six connections to a
 * server at most, so a page that nobody sees has none.
 */
export function follow(target: string, follower: Follower): () => void {
  let isOver = false;
  let last = "";
  let reading: AbortController | null = null;
  let timer = 0;
  let wait = WAIT_MIN_MS;

  async function read(): Promise<void> {
    const control = new AbortController();
    reading = control;
    try {
      const from: Record<string, string> = last === "" ? {} : { "Last-Event-ID": last };
      const answer = await fetch(target, {
        headers: headers(from),
        signal: control.signal,
        credentials: "same-origin",
        cache: "no-store",
      });
      if (!answer.ok || answer.body === null) throw await refusal(answer);
      await take(answer.body);
      again("the stream ended");
    } catch (error) {
      if (control.signal.aborted) return;
      const isFinal = error instanceof Refusal && [401, 403, 404].includes(error.status);
      if (isFinal) {
        follower.ended(error as Refusal);
        stop();
      } else {
        again(reason(error));
      }
    }
  }

  async function take(body: ReadableStream<Uint8Array>): Promise<void> {
    const [reader, decoder, parser] = [body.getReader(), new TextDecoder(), new Parser()];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      for (const found of parser.push(decoder.decode(value, { stream: true }))) {
        if (found.id !== "") last = found.id;
        wait = WAIT_MIN_MS;
        follower.broken("");
        follower.message(found);
      }
    }
  }

  function again(why: string): void {
    if (isOver || document.hidden) return;
    follower.broken(why);
    timer = window.setTimeout(read, wait);
    wait = Math.min(2 * wait, WAIT_MAX_MS);
  }

  function seen(): void {
    reading?.abort();
    window.clearTimeout(timer);
    if (!document.hidden) void read();
  }

  function stop(): void {
    isOver = true;
    document.removeEventListener("visibilitychange", seen);
    reading?.abort();
    window.clearTimeout(timer);
  }

  document.addEventListener("visibilitychange", seen);
  if (!document.hidden) void read();
  return stop;
}
