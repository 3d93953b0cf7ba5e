// One run: how it is in one sentence, and tabs with everything else.

import { html, useEffect, useRef, useState } from "/static/vendor/htm-preact.js";
import { about, act, get, watch } from "/static/api.js";
import { Chart, chartsOf, Timeline } from "/static/charts.js";
import { bytes, capital, clock, counted, metricName, number, span } from "/static/format.js";
import { Logs } from "/static/logs.js";
import { go, Problem, State, Told, withQuery } from "/static/parts.js";
import { Ranks } from "/static/ranks.js";
import { Servers } from "/static/servers.js";

const TABS = [["", "Overview"], ["ranks", "Ranks"], ["servers", "Servers"], ["logs", "Logs"], ["config", "Config"], ["files", "Files"]];

export function Run({ id, onState }) {
  const tab = new URLSearchParams(location.search).get("tab") || "";
  const [data, setData] = useState(null);
  const [curves, setCurves] = useState(null);
  const [error, setError] = useState("");
  const [moment, setMoment] = useState(0);
  const position = useRef("");

  useEffect(() => {
    let isGone = false;
    let timer = 0;
    const load = async () => {
      try {
        const found = await get(`/runs/${id}`);
        if (isGone) return;
        if (found.row.id !== id) return go(`/runs/${found.row.id}${location.search}`, { replaces: true }); // it has metrics now, and is a run of its own
        setData({ ...found, fetched: Date.now() / 1000 });
        setError("");
        document.title = `${found.row.name}: ${found.row.state} - umiak`;
      } catch (problem) {
        if (!isGone) setError(problem.message);
      }
    };
    const loadCurves = async () => {
      try {
        const found = await get(`/runs/${id}/curves`);
        if (isGone) return;
        position.current = found.position;
        setCurves(found);
      } catch (problem) {
        if (!isGone) setError(problem.message);
      }
    };
    const heard = (event) => {
      if (event.topic === "hello") return load(), loadCurves();
      if (event.topic === `curves:${id}`) {
        if (event.points && event.from === position.current) {
          position.current = event.to;
          setCurves((known) => known && grown(known, event));
        } else if (event.to !== position.current) loadCurves();
      }
      clearTimeout(timer);
      timer = setTimeout(load, 150);
    };
    const stop = watch([`run:${id}`, `curves:${id}`], heard, onState);
    const clockwork = setInterval(() => setMoment((count) => count + 1), 5000);
    return () => {
      isGone = true;
      clearTimeout(timer);
      clearInterval(clockwork);
      stop();
    };
  }, [id]);

  if (!data) return error ? html`<h1>Run ${id}</h1><${Problem} text=${error} /><p><a href="/runs">All runs</a></p>` : html`<p class="wait">Reading the run ...</p>`;
  const { row } = data;
  const now = data.now_s + (Date.now() / 1000 - data.fetched) + 0 * moment;
  const page = { ranks: Ranks, servers: Servers, logs: Logs, config: Config, files: Files }[tab] || Overview;
  return html`
    <h1><${State} state=${row.state} /> ${row.name} <${Cancel} row=${row} /></h1>
    <p class="sentence" role="status" aria-live="polite">${capital(data.sentence)}</p>
    ${data.hint ? html`<p class="hint"><${Told} text=${capital(data.hint)} /></p>` : null}
    ${data.remote ? html`<${Remote} told=${data.remote} later=${now - data.now_s} isOver=${row.ended_s != null} />` : null}
    ${error ? html`<${Problem} text=${error} />` : null}
    <nav class="tabs" aria-label="Parts of the run">${TABS.filter(([name]) => name !== "servers" || data.has_servers).map(([name, title]) => html`
      <a href=${`/runs/${id}${name ? `?tab=${name}` : ""}`} aria-current=${tab === name ? "page" : undefined}>${title}</a>`)}</nav>
    <${page} id=${id} data=${data} curves=${curves} now=${now} onState=${onState} />`;
}

// How old what its place has said is, and since when the place says nothing.
function Remote({ told, later, isOver }) {
  const parts = [];
  if (told.age_s != null) parts.push(`As ${told.place} said ${span(told.age_s + later)} ago.`);
  if (told.asking_s != null) parts.push(`${told.place} is being asked for ${span(told.asking_s + later)} now.`);
  else if (told.age_s == null && !told.problem && !isOver) parts.push(`${told.place} was not asked yet.`);
  return html`${told.problem ? html`<${Problem} text=${`${told.place}: ${told.problem}`} />` : null}${parts.length ? html`<p class="hint remote">${parts.join(" ")}</p>` : null}`;
}

function grown(known, event) {
  const curves = { ...known.curves };
  for (const [name, x, time, y] of event.points) {
    const before = curves[name] || { x: [], time: [], y: [] };
    curves[name] = { x: [...before.x, x], time: [...before.time, time], y: [...before.y, y] };
  }
  return { ...known, position: event.to, curves, events: [...known.events, ...(event.events || [])] };
}

// Only where the server was started with it, and it asks once.
function Cancel({ row }) {
  const [said, setSaid] = useState("");
  const [isBusy, setBusy] = useState(false);
  const dialog = useRef(null);
  if (!about.allowed.includes("cancel") || (row.ended_s && !said)) return null;
  const cancel = async () => {
    dialog.current.close();
    setBusy(true);
    setSaid("cancelling ...");
    try {
      setSaid((await act(`/runs/${row.id}/cancel`)).text);
    } catch (problem) {
      setSaid(problem.message);
    }
    setBusy(false);
  };
  return html`${row.ended_s ? null : html`<button class="danger" disabled=${isBusy} onClick=${() => dialog.current.showModal()}>Cancel</button>`}
    <small class="dim" role="status">${said}</small>
    <dialog ref=${dialog} aria-label="Cancel the run"><p>Cancel <strong>${row.name}</strong> (${row.id})? Its workers get SIGTERM, and what they have not saved is lost.</p>
      <div class="bar"><button class="danger" onClick=${cancel}>Cancel the run</button><button autofocus onClick=${() => dialog.current.close()}>Let it go on</button></div></dialog>`;
}

const Card = ({ name, children }) => html`<div><dt>${name}</dt><dd>${children}</dd></div>`;

function Overview({ id, data, curves, now }) {
  const query = new URLSearchParams(location.search);
  const axis = query.get("axis") || "samples";
  const { row } = data;
  const isQueued = row.state === "queued";
  const [earlier, setEarlier] = useState(null);
  const [hides, setHides] = useState(false);
  useEffect(() => {
    let isGone = false;
    if (data.config && row.metric) get(`/runs/${id}/earlier`).then((answer) => !isGone && setEarlier(answer), () => {});
    return () => (isGone = true);
  }, [id, row.metric]);
  const best = earlier && earlier.row;
  const behind = best && !hides ? { name: "best earlier", curves: earlier.curves, later_s: (row.started_s || 0) - (best.started_s || 0) } : null;
  const found = curves ? chartsOf([{ name: row.name, curves: curves.curves }], axis, behind) : [];
  const evaluations = curves ? curves.events.filter((each) => each.event === "epoch" || each.event === "pass").slice(-12).reverse() : [];
  return html`
    <dl class="cards">
      ${row.started_s == null ? null : html`<${Card} name=${isQueued ? "Submitted" : "Started"}>${clock(row.started_s)}<//>
      <${Card} name=${row.ended_s ? "Took" : isQueued ? "Waiting for" : "Running for"}>${span((row.ended_s || now) - row.started_s)}<//>`}
      ${row.step == null ? null : html`<${Card} name=${row.epoch == null ? "Batch" : "Epoch / batch"}>${row.epoch == null ? "" : `${row.epoch + 1} / `}${row.step.toLocaleString("en")}<//>`}
      ${row.samples_per_s == null ? null : html`<${Card} name="Samples/s">${number(row.samples_per_s)}<//>`}
      ${data.latest.left_s == null || row.ended_s ? null : html`<${Card} name="Epoch ends in">${span(data.latest.left_s)}<//>`}
      ${row.metric_value == null ? null : html`<${Card} name=${metricName(row.metric)}>${number(row.metric_value)}<//>`}
      ${row.nodes_expected == null ? null : html`<${Card} name="Nodes">${row.nodes_up == null ? row.nodes_expected : `${row.nodes_up} of ${row.nodes_expected} up`}<//>`}
      <${Card} name="Restarts">${row.restarts}<//>
    </dl>
    ${data.first_failure ? html`<${Failure} id=${id} data=${data} failure=${data.first_failure} />` : null}
    ${data.generations.length ? html`<h2>Generations</h2><${Timeline} generations=${data.generations} failures=${data.failures} row=${row} now=${row.ended_s || now} />
      <ol class="generations">${data.generations.slice(-10).map((each) => html`<${Generation} key=${each.number} generation=${each} failures=${data.failures} end=${each.ended_s || row.ended_s || now} />`)}</ol>` : null}
    ${found.length ? html`<h2>Curves</h2>
      <div class="bar"><a href=${withQuery({ axis: axis === "time" ? "" : "time" })}>over ${axis === "time" ? "samples" : "time"}</a> <a href=${`/compare?runs=${best ? `${id},${best.id}` : id}`}>${best ? "compare with it" : "compare with other runs"}</a></div>
      ${best ? html`<${Earlier} earlier=${earlier} isShown=${!hides} onShown=${(shown) => setHides(!shown)} />` : null}
      <div class="charts">${found.map((each) => html`<${Chart} key=${each.title} ...${each} axis=${axis} />`)}</div>` : curves && row.kind === "train" ? html`<p class="empty">No metrics yet.</p>` : null}
    ${curves && curves.left_out ? html`<p class="hint">More than 64 curves: the others are not shown.</p>` : null}
    ${evaluations.length ? html`<h2>Epochs</h2><div class="scroll" tabindex="0" role="region" aria-label="Epochs"><table class="plain"><thead><tr><th scope="col">Epoch</th><th scope="col">Samples</th><th scope="col">Seconds</th><th scope="col">Trained</th><th scope="col">Evaluated</th></tr></thead>
      <tbody>${evaluations.map((each) => html`<tr><td>${each.epoch + 1}${each.day ? `, ${each.day}` : ""}</td><td>${number(each.samples)}</td><td>${number(each.seconds)}</td><td>${numbers(each.trained)}</td><td>${numbers(each.evaluated)}</td></tr>`)}</tbody></table></div>` : null}`;
}

// Which run the dashed curves are of, and what was different then.
function Earlier({ earlier, isShown, onShown }) {
  const { row, different, count } = earlier;
  const names = Object.keys(different);
  const shown = names.slice(0, 6).map((name) => `${name} ${text(different[name][0])}, now ${text(different[name][1])}`);
  return html`<p class="hint earlier"><label><input type="checkbox" checked=${isShown} onChange=${(event) => onShown(event.target.checked)} /> dashed: </label>
    <a href=${`/runs/${row.id}`}>${row.name}</a>, ${count === 1 ? "the earlier run" : `the best of ${count} earlier runs`} of this config: ${metricName(row.metric)} ${number(row.metric_value)}.${" "}
    ${names.length ? `Different then: ${shown.join("; ")}${names.length > 6 ? `; and ${names.length - 6} more settings` : ""}.` : "Its settings were the same."}</p>`;
}

const text = (value) => (value == null ? "nothing" : String(value));
const numbers = (metrics) => Object.entries(metrics || {}).map(([name, value]) => `${name} ${value == null ? "-" : number(value)}`).join(", ");

const MOST_FAILURES = 6;

// How long it was, why it ended, and who failed in it and was started again in its place.
function Generation({ generation, failures, end }) {
  const { number, nodes, workers, cause, began_s } = generation;
  const again = failures.filter((each) => each.generation === number && each.again_s != null);
  return html`<li value=${number}>${span(end - began_s)} with ${counted(nodes, "node")}, ${counted(workers, "worker")}${cause ? `: ended because ${cause}` : ""}
    ${again.length ? html`<ul>${again.slice(-MOST_FAILURES).map((each) => html`<li>after ${span((each.at_s || each.again_s) - began_s)} ${each.who} ${each.text}; it was started again in its place</li>`)}
      ${again.length > MOST_FAILURES ? html`<li>and earlier ones</li>` : null}</ul>` : null}</li>`;
}

function Failure({ id, data, failure }) {
  const log = data.files.find((each) => each.kind === "log" && `${each.role}.${each.number}` === failure.worker);
  const isPast = failure.again_s != null && data.row.state !== "failed";
  return html`<section class=${`failure${isPast ? " past" : ""}`} aria-label="What failed first">
    <strong>${isPast ? "Started again after a failure" : "What failed first"}: ${failure.who} ${failure.text}</strong> ${failure.at_s ? html`<span class="dim">${clock(failure.at_s)}, generation ${failure.generation}</span>` : null}
    ${log ? html` <a href=${`/runs/${id}?tab=logs&file=${log.key}&error=1`}>its log, at the first error</a>` : null}
    ${failure.excerpt ? html`<pre tabindex="0" aria-label="The end of its output">${failure.excerpt}</pre>` : null}
  </section>`;
}

function Config({ id, data }) {
  const other = new URLSearchParams(location.search).get("with") || "";
  const [found, setFound] = useState(null);
  const [others, setOthers] = useState([]);
  const [error, setError] = useState("");
  useEffect(() => {
    get("/runs", { limit: 100 }).then((answer) => setOthers(answer.runs), () => {});
  }, []);
  useEffect(() => {
    setFound(null);
    if (other) get("/compare", { runs: `${id},${other}` }).then(setFound, (problem) => setError(problem.message));
  }, [id, other]);
  const tables = [["The config", data.config ? data.config.settings : {}], ["Settings of the launcher", data.settings]].map(([title, all]) => [title, Object.entries(all).sort()]).filter(([, rows]) => rows.length);
  const theirs = found && found.runs.length === 2 ? found.runs[1] : null;
  const own = new Set(tables.flatMap(([, rows]) => rows.map(([name]) => name)));
  const only = theirs ? found.different.filter((name) => !own.has(name)) : [];
  return html`
    <form class="bar" onSubmit=${(event) => { event.preventDefault(); history.replaceState(null, "", withQuery({ with: event.target.elements.other.value })); dispatchEvent(new PopStateEvent("popstate")); }}>
      <label>Differences to run <input name="other" value=${other} placeholder="id of a run" list="others" /></label><button>Show</button>
      <datalist id="others">${others.filter((row) => row.id !== id).map((row) => html`<option value=${row.id}>${row.name} (${row.state})</option>`)}</datalist></form>
    ${error ? html`<${Problem} text=${error} />` : null}
    ${other && found && !theirs ? html`<${Problem} text="there is no such run" />` : null}
    <dl class="cards"><${Card} name="Id">${data.row.id}<//><${Card} name="Directory">${data.row.directory}<//>${data.config ? html`<${Card} name="Config">${data.config.file}<//><${Card} name="Runner">${data.config.runner}<//>` : null}${data.handle ? html`<${Card} name="Handle">${data.handle}<//>` : null}</dl>
    ${tables.map(([title, rows]) => html`<h2>${title}</h2><div class="scroll" tabindex="0" role="region" aria-label=${title}><table class="plain"><thead><tr><th scope="col">Setting</th><th scope="col">Value</th>${theirs ? html`<th scope="col">${theirs.row.name}</th>` : null}</tr></thead>
      <tbody>${rows.map(([name, value]) => html`<tr class=${theirs && found.different.includes(name) ? "differs" : ""}><td>${name}</td><td>${String(value ?? "")}</td>${theirs ? html`<td>${String(theirs.settings[name] ?? "")}</td>` : null}</tr>`)}</tbody></table></div>`)}
    ${only.length ? html`<h2>Only ${theirs.row.name} has</h2><table class="plain"><tbody>${only.map((name) => html`<tr class="differs"><td>${name}</td><td>${String(theirs.settings[name] ?? "")}</td></tr>`)}</tbody></table>` : null}
    ${tables.length ? null : html`<p class="empty">The run keeps no config, and has no launcher whose settings were written down.</p>`}`;
}

const SAVED = { saved: "checkpoint", served: "inference model", published: "published model" };
const LARGEST_PLOT = 4e6;

function Files({ id, data }) {
  const plots = data.files.filter((each) => each.kind === "plot" && each.size_bytes && each.size_bytes < LARGEST_PLOT);
  const reports = data.files.filter((each) => each.kind === "report");
  const others = data.files.filter((each) => each.kind !== "report");
  return html`
    ${data.saved.length ? html`<h2>Checkpoints and models</h2><div class="scroll" tabindex="0" role="region" aria-label="Checkpoints and models"><table class="plain"><thead><tr><th scope="col">What</th><th scope="col">Where</th><th scope="col">When</th></tr></thead>
      <tbody>${[...data.saved].reverse().map((each) => html`<tr><td>${SAVED[each.event] || each.event}</td><td class="mono">${each.path}</td><td>${clock(each.time)}</td></tr>`)}</tbody></table></div>` : null}
    ${plots.length ? html`<h2>Plots</h2>${plots.map((each) => html`<figure class="plot"><img src=${`/files/${id}/${each.key}?at=${each.changed_s}`} alt=${`${each.name}, as the run drew it`} loading="lazy" /><figcaption>${each.name}</figcaption></figure>`)}` : null}
    ${reports.length ? html`<h2>Reports of failures</h2><${FileTable} id=${id} files=${reports} />` : null}
    <h2>Files</h2><${FileTable} id=${id} files=${others} />`;
}

function FileTable({ id, files }) {
  const isText = (each) => !["plot"].includes(each.kind);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Files"><table class="plain"><thead><tr><th scope="col">File</th><th scope="col">Kind</th><th scope="col">Size</th><th scope="col">Changed</th><th scope="col"><span class="visually-hidden">Read</span></th></tr></thead>
    <tbody>${files.map((each) => html`<tr><td>${each.size_bytes == null ? each.name : html`<a href=${`/files/${id}/${each.key}`} download>${each.name}</a>`}</td><td>${each.kind}</td><td>${bytes(each.size_bytes)}</td><td>${clock(each.changed_s)}</td>
      <td>${isText(each) ? html`<a href=${`/runs/${id}?tab=logs&file=${each.key}`} aria-label=${`read ${each.name}`}>read</a>` : null}</td></tr>`)}</tbody></table></div>`;
}
