// The workers of a run: a grid in the colours of what each does, and of the chosen one its log, its process and its stack.

import { html, useEffect, useState } from "/static/vendor/htm-preact.js";
import { get } from "/static/api.js";
import { bytes, clock, number, span } from "/static/format.js";
import { Problem, Told, withQuery } from "/static/parts.js";

const ORDER = ["failed", "silent", "waiting", "starting", "running", "stopped", "done"];
const MOST_LARGE = 48;

export function Ranks({ id, data, now }) {
  const query = new URLSearchParams(location.search);
  const all = data.workers.flatMap((each) => each.workers);
  const chosen = all.find((each) => each.launcher === (query.get("launcher") || "") && each.key === query.get("worker"));
  if (!all.length) return html`<p class="empty">${data.row.kind === "train" && !data.generations.length ? "It trains in one process, without a launcher." : "No worker was started yet."}</p>`;
  const shares = Object.entries(data.shares);
  const isSmall = all.length > MOST_LARGE;
  const link = (worker) => withQuery({ worker: worker.key, launcher: worker.launcher });
  return html`
    <p class="phases">${ORDER.map((phase) => [phase, all.filter((each) => each.phase === phase).length]).filter(([, count]) => count).map(([phase, count]) => html`<span class=${`phase ${phase}`}>${count} ${phase}</span> `)}
      ${shares.length ? `The first trainer's time: ${shares.map(([name, share]) => `${name} ${Math.round(share * 100)}%`).join(", ")}.` : ""}</p>
    ${data.workers.map(({ launcher, workers }) => html`
      ${launcher ? html`<h2>${launcher}</h2>` : null}
      <div class=${`ranks${isSmall ? " small" : ""}`}>${workers.map((worker) => html`<a key=${worker.key} class=${worker.phase} href=${link(worker)} aria-current=${worker === chosen ? "true" : undefined} title=${[worker.phase, worker.waits, worker.reason].filter(Boolean).join(": ")}>
        ${isSmall ? html`<span class="visually-hidden">${worker.role} </span>${worker.rank}<span class="visually-hidden"> ${worker.phase}</span>` : html`${worker.role} ${worker.rank} <small>${phaseSince(worker, data.row.ended_s, now)}</small>
          <small>${worker.host}${worker.starts > 1 ? `, start ${worker.starts}` : ""}</small>
          <small>${worker.wrote_s ? `wrote ${span(now - worker.wrote_s)} ago` : "no log here"}</small>`}</a>`)}</div>`)}
    ${chosen ? html`<${Chosen} key=${`${chosen.launcher} ${chosen.key}`} id=${id} worker=${chosen} now=${now} />` : html`<p class="hint">Choose a worker to see its process, its log and its stack.</p>`}`;
}

// "running for 5 min", "failed 2 h ago", "stopped, was up for 3 h".
function phaseSince({ phase, state, since_s }, ended, now) {
  if (phase === state) return ["failed", "stopped", "done"].includes(phase) ? `${phase} ${span(now - since_s)} ago` : `${phase} for ${span(now - since_s)}`;
  return ended ? `${phase}, was up for ${span(ended - since_s)}` : `${phase}, up for ${span(now - since_s)}`;
}

function Chosen({ id, worker, now }) {
  const [stack, setStack] = useState(null);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const look = async () => {
    setBusy(true);
    try {
      setStack(await get(`/runs/${id}/stack`, { worker: worker.key, launcher: worker.launcher }));
      setError("");
    } catch (problem) {
      setError(problem.message);
    }
    setBusy(false);
  };
  const { process } = worker;
  useEffect(() => setStack(null), [process && process.pid]);
  return html`<section class="panel" aria-label=${`${worker.role} ${worker.rank}`}>
    <h2>${worker.role} ${worker.rank}: ${worker.phase}</h2>
    ${worker.waits ? html`<p>${worker.waits}</p>` : null}${worker.reason ? html`<p>${worker.reason}</p>` : null}
    <div class="bar">
      ${worker.log ? html`<a href=${`/runs/${id}?tab=logs&file=${worker.log}`}>its log</a> <a href=${`/runs/${id}?tab=logs&file=${worker.log}&error=1`}>first error</a>` : null}
      ${worker.stacks ? html`<a href=${`/runs/${id}?tab=logs&file=${worker.stacks}`}>stacks that it wrote</a>` : null}
      ${process ? html`<button onClick=${look} disabled=${isBusy}>${isBusy ? "looking ..." : stack ? "Stack again" : "Stack now"}</button>` : null}</div>
    ${process ? html`<dl class="cards"><div><dt>Process</dt><dd>${process.pid}, ${process.does}</dd></div><div><dt>CPU time</dt><dd>${span(process.cpu_s)}</dd></div>
      <div><dt>Memory</dt><dd>${bytes(process.memory_bytes)}</dd></div><div><dt>Threads</dt><dd>${number(process.threads)}</dd></div></dl>` : html`<p class="hint">Its process is not on this machine, or has ended.</p>`}
    ${error ? html`<${Problem} text=${error} />` : null}
    ${stack ? html`${stack.why ? html`<${Problem} text=${stack.why} />` : null}${stack.text ? html`<h3>Its stack at ${clock(stack.at_s)}</h3><pre class="scroll" tabindex="0" aria-label="Stack">${stack.text}</pre>` : null}` : null}
  </section>`;
}
