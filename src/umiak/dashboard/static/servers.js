// Parameter servers of a run: each server, each table, each trainer; what the rates are and have been.

import { html, useEffect, useState } from "/static/vendor/htm-preact.js";
import { get, watch } from "/static/api.js";
import { Chart } from "/static/charts.js";
import { bytes, clock, number, span, took } from "/static/format.js";
import { Problem } from "/static/parts.js";

const RATES = [["pulls_per_s", "requests to pull, per second"], ["pulled_rows_per_s", "rows pulled, per second"], ["pushes_per_s", "requests to push, per second"], ["pushed_rows_per_s", "rows pushed, per second"]];
const count = (value) => (value == null ? "-" : number(value));
const where = (log) => (log ? `${log.failure || log.snapshot_failure || `${number(log.durable)} of ${number(log.last)}, ${bytes(log.bytes)}`}` : "none");

export function Servers({ id, data }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState("");
  useEffect(() => {
    let isGone = false;
    const load = () => get(`/runs/${id}/servers`).then((answer) => !isGone && (setFound(answer), setError("")), (problem) => !isGone && setError(problem.message));
    const stop = watch([`run:${id}`, `servers:${id}`], (event) => ["hello", `servers:${id}`].includes(event.topic) && load());
    return () => ((isGone = true), stop());
  }, [id]);
  if (error) return html`<${Problem} text=${error} />`;
  if (!found) return html`<p class="wait">Asking the servers ...</p>`;
  if (!found.servers) return html`<p class="empty">${data.row.ended_s ? "The job is over, and its servers with it." : "No server of this run was reached from this machine yet."}</p><${Saved} found=${found} />`;
  const silent = found.servers.filter((each) => !each.reachable);
  return html`
    <p>${found.servers.length - silent.length} of ${found.servers.length} servers answer${!found.step ? "" : `, step ${number(found.step)}`}${found.step && found.step_waits_for.length ? `; the step waits for ${found.step_waits_for.map((rank) => `trainer ${rank}`).join(", ")}` : ""}${found.age_s > 10 ? `; this was ${span(found.age_s)} ago` : ""}.</p>
    <${Rates} found=${found} />
    <${Latencies} told=${found.latencies || {}} />
    <${Table} title="Servers" heads=${["Server", "Address", "Up", "Rows", "Memory", "Pulls/s", "Rows/s", "Pushes/s", "Rows/s", "Pull p99", "Push p99", "Log position"]} rows=${found.servers.map((each) => (each.reachable
      ? [each.server, each.endpoint, span(each.up_s), number(each.rows), bytes(each.bytes), count(each.pulls_per_s), count(each.pulled_rows_per_s), count(each.pushes_per_s), count(each.pushed_rows_per_s), ...["pulls", "pushes"].map((kind) => took(newest(each.latencies?.[kind])?.p99_s)), where(each.log)]
      : ["?", each.endpoint, `no answer: ${each.why}`, ...Array(9).fill("")]))} />
    <${Table} title="Tables" heads=${["Table", "Kind", "Rows", "Memory", "Learning rate"]} rows=${found.tables.map((each) => [each.name, each.kind, number(each.rows ?? each.elements), bytes(each.bytes), number(each.learning_rate)])} />
    <${Table} title="Trainers" heads=${["Trainer", "State", "Step", "Waits for"]} rows=${found.trainers.map((each) => [each.rank, each.state, each.step, each.waits || ""])} />
    <${Saved} found=${found} />`;
}

function Rates({ found }) {
  const names = RATES.filter(([name]) => found.rates[name]);
  if (!names.length) return html`<p class="hint">Rates come with the next look.</p>`;
  const drawn = [["pulled_rows_per_s", "pulled"], ["pushed_rows_per_s", "pushed"]].filter(([name]) => found.history[name] && found.history[name].time.length > 1);
  return html`
    <${Table} title="Rates" heads=${["Of all servers", "Now", "p50", "p99"]} rows=${names.map(([name, text]) => [text, count(found.rates[name].now), number(found.rates[name].p50), number(found.rates[name].p99)])} />
    <p class="hint">Each is the mean of about two seconds; p50 and p99 are over the ${number(found.looks)} looks of the last ${span(found.over_s)}.</p>
    ${drawn.length ? html`<div class="charts"><${Chart} title="rows per second" axis="time" series=${drawn.map(([name, label]) => ({ label, x: found.history[name].time, y: found.history[name].y }))} /></div>` : null}`;
}

const KINDS = { pulls: "pulls", pushes: "pushes", dense_pulls: "pulls of dense parameters", dense_pushes: "pushes of dense gradients" };
const newest = (told) => told?.recent || told;

// How long requests took on the servers, of all of them together.
function Latencies({ told }) {
  const names = Object.keys(KINDS).filter((kind) => told[kind]);
  if (!names.length) return null;
  const pair = (each) => (each ? [number(each.count), took(each.p50_s), took(each.p99_s)] : ["-", "-", "-"]);
  return html`
    <${Table} title="Latencies" heads=${["Of all servers", "Lately", "p50", "p99", "Since they began", "p50", "p99"]} rows=${names.map((kind) => [KINDS[kind], ...pair(told[kind].recent), ...pair(told[kind])])} />
    <p class="hint">From when a server had read a request to when its answer was sent, with what it waited for other trainers. Each is at most a fifth too large.</p>`;
}

function Saved({ found }) {
  const age = (time) => `${span(found.now_s - time)} ago, ${clock(time)}`;
  const rows = [...(found.checkpoint ? [["checkpoint", `${found.checkpoint.path}`, age(found.checkpoint.time)]] : []), ...found.snapshots.map((each) => ["snapshot", `server ${each.server} on its node`, age(each.time)])];
  return rows.length ? html`<${Table} title="Saved" heads=${["What", "Where", "When"]} rows=${rows} />` : html`<p class="hint">No checkpoint was saved yet, and no snapshot of a server's log was needed.</p>`;
}

function Table({ title, heads, rows }) {
  return html`<h2>${title}</h2><div class="scroll" tabindex="0" role="region" aria-label=${title}><table class="plain"><thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}
