// Calls of the manager's API. The token stays in this variable: it is in no URL and in no storage,
// and a reload of the page forgets it.

let token = "";

export function useToken(text: string): void {
  token = text;
}

/** What the API answers where it refuses (RFC 9457). */
export interface Problem {
  title: string;
  status: number;
  detail: string;
  field?: string;
}

/** A refusal, or a server that does not answer (status 0). */
export class Refusal extends Error {
  status: number;

  constructor(status: number, detail: string) {
    super(detail);
    this.status = status;
  }
}

export interface Condition {
  kind: string;
  holds: boolean;
  reason: string;
  message: string;
  since: string;
}

export interface ChainSpec {
  configuration: string;
  variables?: Record<string, string>;
  functions?: Record<string, string>;
  replicas?: Record<string, unknown>;
  on_demand?: Record<string, unknown>;
  groups?: string[];
  threads?: number;
  cores?: string;
  stopped?: boolean;
}

/** Replicas of a function of a chain. */
export interface Replicas {
  function: string;
  wanted: number;
  replicas: {
    number: number;
    version: string;
    state: string;
    weight: number;
    sessions: number;
    waiting: number;
    packets: number;
    lost: number;
    failures: number;
  }[];
}

export interface Chain {
  name: string;
  generation: number;
  time: string;
  author: string;
  stopped: boolean;
  spec?: ChainSpec;
  status: {
    observed_generation: number;
    pid: number | null;
    restarts: number;
    conditions: Condition[];
    replicas?: Replicas[];
  } | null;
}

export interface Generation {
  generation: number;
  time: string;
  author: string;
  deleted: boolean;
}

/** What a change did, or would do. */
export interface Change {
  generation: number;
  changed: boolean;
  warnings: string;
  diff: string;
}

export interface ManagerEvent {
  id: string;
  time: string;
  chain: string;
  reason: string;
  message: string;
}

/** A path of the API, each part of it escaped. */
export function path(...parts: string[]): string {
  return "/v1/" + parts.map(encodeURIComponent).join("/");
}

/** Header fields of a call. */
export function headers(more: Record<string, string> = {}): Record<string, string> {
  return token === "" ? more : { ...more, Authorization: `Bearer ${token}` };
}

/** Why an answer is a refusal. */
export async function refusal(answer: Response): Promise<Refusal> {
  let detail = `the manager answers ${answer.status}`;
  try {
    const problem = (await answer.json()) as Problem;
    detail = problem.field ? `${problem.field}: ${problem.detail}` : problem.detail;
  } catch {
    // It is no problem document.
  }
  return new Refusal(answer.status, detail);
}

/** Makes a call. `body` is sent as JSON. */
export async function call<T>(
  method: string,
  target: string,
  body?: unknown,
  more: Record<string, string> = {},
): Promise<T> {
  const type: Record<string, string> =
    body === undefined ? {} : { "Content-Type": "application/json" };
  let answer: Response;
  try {
    answer = await fetch(target, {
      method,
      headers: headers({ ...type, ...more }),
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch {
    throw new Refusal(0, "the manager does not answer");
  }
  if (!answer.ok) {
    throw await refusal(answer);
  }
  return (await answer.json()) as T;
}

/** What went wrong, as a sentence. */
export function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
