// Sessions: their counts, and a list of the first ones when it is asked for.

import { call, path } from "./api.js";
import { count } from "./format.js";
import { Lines } from "./lines.js";
import { h } from "./preact.js";
import { Live } from "./rates.js";

/** Lines of a FlowClassifier's first page of sessions. */
async function flows(chain: string, element: string): Promise<string[]> {
  const target = path("chains", chain, "handlers", `${element}.flows`);
  const { value } = await call<{ value: string }>("GET", target);
  return value.split("\n").filter((line) => line !== "" && !line.startsWith("next "));
}

export function Sessions(props: { chain: string; live: Live }) {
  const { sessions, elements } = props.live.graph;
  const element = sessions === null ? undefined : elements[sessions.element];
  if (sessions === null || element === undefined) return null;
  return (
    <section class="card" aria-labelledby="sessions-title">
      <h2 id="sessions-title">Sessions</h2>
      <p id="sessions">
        {count(sessions.now)} now, {count(sessions.created)} begun, {count(sessions.expired)} timed
        out, {count(sessions.closed)} closed, {count(sessions.refused)} packets without room
      </p>
      <Lines
        id="session"
        title="Sessions"
        action="List sessions"
        fetch={() => flows(props.chain, element.name)}
      />
    </section>
  );
}
