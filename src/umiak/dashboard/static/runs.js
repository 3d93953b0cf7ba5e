// The list of runs: filter and order stand in the address, and only the rows that are seen are asked for.

import { html, useEffect, useRef, useState } from "/static/vendor/htm-preact.js";
import { get, watch } from "/static/api.js";
import { ago, clock, counted, metricName, number } from "/static/format.js";
import { go, Problem, Sparkline, State, withQuery } from "/static/parts.js";

const ROW = 38;
const PIECE = 100;
const AROUND = 8;
const COLUMNS = [
  ["pick", "", ""], ["state", "State", "state"], ["name", "Name", "name"], ["place", "Place", "place"], ["age", "Started", "started"],
  ["step", "Step", "step"], ["speed", "Samples/s", "speed"], ["metric", "Metric", "metric"], ["nodes", "Nodes", "nodes"],
];

export function Runs({ onState }) {
  const query = new URLSearchParams(location.search);
  const [filter, setFilter] = useState(query.get("q") || "");
  const sort = query.get("sort") || "-started";
  const [head, setHead] = useState(null);
  const [error, setError] = useState("");
  const [pieces, setPieces] = useState(new Map());
  const [view, setView] = useState({ top: 0, height: 600 });
  const [chosen, setChosen] = useState(-1);
  const place = useRef(-1); // keys come faster than the page is drawn
  const choose = (at) => ((place.current = at), setChosen(at));
  const [picked, setPicked] = useState([]);
  const box = useRef(null);
  const key = `${filter} ${sort}`;
  const current = useRef({ key, first: 0 });
  current.current.key = key;

  const load = async (piece) => {
    try {
      const data = await get("/runs", { q: filter, sort, offset: piece * PIECE, limit: PIECE });
      if (current.current.key !== key) return;
      setHead(data);
      setError("");
      setPieces((known) => new Map(known).set(piece, { key, rows: data.runs, at: Date.now() }));
    } catch (problem) {
      if (problem.name !== "AbortError") setError(problem.message);
    }
  };
  const first = Math.max(0, Math.floor(view.top / ROW) - AROUND);
  const last = Math.ceil((view.top + view.height) / ROW) + AROUND;
  const wanted = [];
  for (let piece = Math.floor(first / PIECE); piece <= Math.floor(last / PIECE); piece++) wanted.push(piece);

  useEffect(() => {
    const total = head ? head.total : 1;
    for (const piece of wanted) {
      const known = pieces.get(piece);
      if ((!known || known.key !== key) && piece * PIECE < Math.max(1, total)) load(piece);
    }
  }, [key, wanted.join()]);

  const reload = useRef(null);
  reload.current = () => wanted.forEach(load);
  useEffect(() => {
    let timer = 0;
    const stop = watch(["runs"], (event) => {
      if (event.rows && event.count === event.rows.length) patch(event.rows);
      clearTimeout(timer);
      timer = setTimeout(() => reload.current(), event.topic === "hello" ? 0 : 300);
    }, onState);
    return () => (clearTimeout(timer), stop());
  }, []);
  const patch = (rows) => {
    const byId = new Map(rows.map((row) => [row.id, row]));
    setPieces((known) => new Map([...known].map(([at, piece]) => [at, { ...piece, rows: piece.rows.map((row) => byId.get(row.id) || row) }])));
  };

  const type = (text) => {
    setFilter(text);
    choose(-1);
    if (box.current) box.current.scrollTop = 0;
    history.replaceState(null, "", withQuery({ q: text }));
  };
  const total = head ? head.total : 0;
  const rowAt = (at) => {
    const piece = pieces.get(Math.floor(at / PIECE));
    return piece ? piece.rows[at % PIECE] : undefined;
  };
  const move = (by) => {
    const at = Math.min(total - 1, Math.max(0, place.current + by));
    choose(at);
    const top = at * ROW;
    if (top < box.current.scrollTop) box.current.scrollTop = top;
    if (top + 2 * ROW > box.current.scrollTop + view.height) box.current.scrollTop = top + 2 * ROW - view.height;
  };
  useEffect(() => {
    const pressed = (event) => {
      if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
      const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: 15, PageUp: -15 };
      if (event.key in steps) move(steps[event.key]);
      else if (event.key === "Enter" && rowAt(place.current) && !event.target.closest("a, button")) go(`/runs/${rowAt(place.current).id}`);
      else if (event.key === "x" && rowAt(place.current)) pick(rowAt(place.current).id);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  useEffect(() => {
    const sized = new ResizeObserver(() => box.current && setView((old) => ({ ...old, height: box.current.clientHeight })));
    sized.observe(box.current);
    return () => sized.disconnect();
  }, []);
  const pick = (id) => setPicked((ids) => (ids.includes(id) ? ids.filter((each) => each !== id) : [...ids, id].slice(-10)));
  const order = (name) => go(withQuery({ sort: sort === `-${name}` ? name : `-${name}` }), { replaces: true });

  const shown = [];
  for (let at = first; at < Math.min(last, total); at++) shown.push([at, rowAt(at)]);
  const now = head ? head.now_s : Date.now() / 1000;
  return html`
    <h1>Runs</h1>
    <div class="bar" role="search">
      <label class="visually-hidden" for="filter">Filter</label>
      <input id="filter" type="search" placeholder="filter: words, state:failed, place:lab, -old" value=${filter} onInput=${(event) => type(event.target.value)} />
      <span aria-live="polite" class="dim">${head ? shownOf(head) : "reading ..."}</span>
      ${picked.length > 1 ? html`<a href=${`/compare?runs=${picked.join(",")}`}>Compare ${picked.length} runs</a>` : picked.length ? html`<span class="dim">pick another to compare</span>` : null}
    </div>
    ${error ? html`<${Problem} text=${error} />` : null}
    ${head ? head.problems.map((text) => html`<${Problem} text=${text} />`) : null}
    <div class="scroll runs" ref=${box} tabindex="0" role="region" aria-label="Runs" onScroll=${(event) => setView({ top: event.target.scrollTop, height: event.target.clientHeight })}>
      <table aria-rowcount=${total + 1}>
        <thead><tr>${COLUMNS.map(([name, title, by]) => html`
          <th scope="col" class=${`col-${name}${["step", "speed", "nodes"].includes(name) ? " number" : ""}`} aria-sort=${sort.replace("-", "") === by && by ? (sort[0] === "-" ? "descending" : "ascending") : undefined}>
            ${by ? html`<button onClick=${() => order(by)}>${title}${sort === by ? " ▲" : sort === `-${by}` ? " ▼" : ""}</button>` : html`<span class="visually-hidden">Compare</span>`}
          </th>`)}</tr></thead>
        <tbody>
          ${first > 0 ? html`<tr aria-hidden="true"><td class="filler" colspan="9" style=${{ height: `${first * ROW}px` }}></td></tr>` : null}
          ${shown.map(([at, row]) => html`<${Row} key=${at} at=${at} row=${row} now=${now} isChosen=${at === chosen} isPicked=${row && picked.includes(row.id)} onPick=${pick} />`)}
          ${total > last ? html`<tr aria-hidden="true"><td class="filler" colspan="9" style=${{ height: `${(total - last) * ROW}px` }}></td></tr>` : null}
        </tbody>
      </table>
      ${head && !total ? html`<p class="empty">${head.all ? "No run fits this filter." : "There are no runs here yet. Start one with umiak launch, umiak train or umiak submit: it appears by itself."}</p>` : null}
    </div>`;
}

function shownOf(head) {
  const count = head.total === head.all ? counted(head.all, "run") : `${head.total.toLocaleString("en")} of ${counted(head.all, "run")}`;
  return head.is_complete ? count : `${count}, reading ${head.expected.toLocaleString("en")}`;
}

function Row({ at, row, now, isChosen, isPicked, onPick }) {
  if (!row) return html`<tr aria-rowindex=${at + 2}><td colspan="9" class="dim">...</td></tr>`;
  const step = row.step == null ? "" : `${row.epoch == null ? "" : `${row.epoch + 1} / `}${row.step.toLocaleString("en")}`;
  const value = row.metric_value == null ? "" : `${metricName(row.metric)} ${number(row.metric_value)}`;
  return html`<tr aria-rowindex=${at + 2} class=${isChosen ? "chosen" : ""} data-run=${row.id}>
    <td class="col-pick"><input type="checkbox" checked=${isPicked} onChange=${() => onPick(row.id)} aria-label=${`compare ${row.name}`} /></td>
    <td class="col-state"><${State} state=${row.state} /></td>
    <td class="col-name" title=${`${row.directory} ${row.reason}`}><a href=${`/runs/${row.id}`}>${row.name}</a>${row.reason ? html` <span class="dim">${row.reason}</span>` : null}</td>
    <td class="col-place">${row.place}</td>
    <td class="col-age" title=${clock(row.started_s)}>${row.started_s == null ? "" : `${ago(row.started_s, now)} ago`}</td>
    <td class="col-step number">${step}</td>
    <td class="col-speed number">${number(row.samples_per_s)}</td>
    <td class="col-metric"><span class="metric"><span>${value}</span><${Sparkline} values=${row.sparkline} label=${`${metricName(row.metric)}, the last ${row.sparkline.length} values`} /></span></td>
    <td class="col-nodes number">${row.nodes_expected == null ? "" : row.nodes_up == null ? row.nodes_expected : `${row.nodes_up}/${row.nodes_expected}`}</td>
  </tr>`;
}
