// Several runs beside each other: their curves, what differs in their settings, their last numbers.

import { html, useEffect, useState } from "/static/vendor/htm-preact.js";
import { get, watch } from "/static/api.js";
import { Chart, chartsOf } from "/static/charts.js";
import { metricName, number, span } from "/static/format.js";
import { go, Problem, State, withQuery } from "/static/parts.js";

export function Compare({ onState }) {
  const query = new URLSearchParams(location.search);
  const ids = (query.get("runs") || "").split(",").filter(Boolean);
  const axis = query.get("axis") || "samples";
  const [data, setData] = useState(null);
  const [others, setOthers] = useState([]);
  const [error, setError] = useState("");
  useEffect(() => {
    let isGone = false;
    let timer = 0;
    const load = () => get("/compare", { runs: ids.join(",") }).then((found) => !isGone && setData(found), (problem) => !isGone && setError(problem.message));
    const stop = watch(["runs"], (event) => {
      if (event.topic === "hello" || !event.rows || event.rows.some((row) => ids.includes(row.id))) {
        clearTimeout(timer);
        timer = setTimeout(load, event.topic === "hello" ? 0 : 300);
      }
    }, onState);
    get("/runs", { limit: 200, q: "kind:train" }).then((found) => !isGone && setOthers(found.runs), () => {});
    return () => ((isGone = true), clearTimeout(timer), stop());
  }, [ids.join()]);
  const runs = data ? data.runs.map((each) => ({ ...each, name: data.runs.filter((other) => other.row.name === each.row.name).length > 1 ? `${each.row.name} ${each.row.id.slice(0, 4)}` : each.row.name })) : [];
  const add = (id) => id && go(withQuery({ runs: [...ids, id].join(",") }), { replaces: true });
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.curves)))].filter((name) => /^(train|evaluated)\//.test(name)).sort();
  return html`
    <h1>Compare</h1>
    <div class="bar"><label>Add a run <select value="" onChange=${(event) => add(event.target.value)}><option value="">choose ...</option>
      ${others.filter((row) => !ids.includes(row.id)).map((row) => html`<option value=${row.id}>${row.name} (${row.state}, ${row.id})</option>`)}</select></label>
      <a href=${withQuery({ axis: axis === "time" ? "" : "time" })}>over ${axis === "time" ? "samples" : "time"}</a></div>
    ${error ? html`<${Problem} text=${error} />` : null}
    ${runs.length ? html`
      <div class="scroll" tabindex="0" role="region" aria-label="The runs"><table class="plain"><thead><tr><th scope="col">Run</th><th scope="col">State</th><th scope="col">Took</th><th scope="col">Samples/s</th>${names.map((name) => html`<th scope="col">${metricName(name)}</th>`)}<th scope="col"><span class="visually-hidden">Leave out</span></th></tr></thead>
      <tbody>${runs.map((run) => html`<tr><td><a href=${`/runs/${run.row.id}`}>${run.name}</a></td><td><${State} state=${run.row.state} /></td>
        <td>${run.row.started_s && run.row.ended_s ? span(run.row.ended_s - run.row.started_s) : ""}</td><td>${number(run.row.samples_per_s)}</td>
        ${names.map((name) => html`<td>${run.curves[name] ? number(run.curves[name].y.at(-1)) : ""}</td>`)}
        <td><button onClick=${() => go(withQuery({ runs: ids.filter((id) => id !== run.row.id).join(",") }), { replaces: true })} aria-label=${`leave out ${run.name}`}>leave out</button></td></tr>`)}</tbody></table></div>
      <h2>Curves</h2><div class="charts">${chartsOf(runs, axis).map((each) => html`<${Chart} key=${each.title} ...${each} axis=${axis} />`)}</div>
      <h2>Settings that differ</h2>
      ${data.different.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="Settings that differ"><table class="plain"><thead><tr><th scope="col">Setting</th>${runs.map((run) => html`<th scope="col">${run.name}</th>`)}</tr></thead>
        <tbody>${data.different.map((name) => html`<tr><td>${name}</td>${runs.map((run) => html`<td>${String(run.settings[name] ?? "")}</td>`)}</tr>`)}</tbody></table></div>` : html`<p class="empty">None of those that were written down.</p>`}` : html`<p class="empty">Choose runs to compare.</p>`}`;
}
