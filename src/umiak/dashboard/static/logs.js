// Logs: one file in pieces of any size, or the ends of all of them in the order of time. Lines are only ever text.

import { html, useEffect, useRef, useState } from "/static/vendor/htm-preact.js";
import { get, watch } from "/static/api.js";
import { bytes, moment } from "/static/format.js";
import { go, Problem, withQuery } from "/static/parts.js";

const MOST_LINES = 5000;

export function Logs({ id, data, onState }) {
  const query = new URLSearchParams(location.search);
  const file = query.get("file") || "";
  const find = query.get("find") || "";
  const level = query.get("level") || "";
  const [page, setPage] = useState(null);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [follows, setFollows] = useState(!query.get("error"));
  const [target, setTarget] = useState(null);
  const box = useRef(null);
  const asked = useRef(null);
  const isFiltered = Boolean(find || level);
  const readable = data.files.filter((each) => ["log", "rotated", "launcher", "stacks", "report", "devices", "environment", "journal", "metrics", "state"].includes(each.kind));

  // One question at a time: a new one ends the one before, and with it what the server still searched for.
  const ask = async (words, use) => {
    if (asked.current) asked.current.abort();
    const abort = (asked.current = new AbortController());
    setBusy(true);
    try {
      const found = await get(`/runs/${id}/log`, { file, ...words }, abort.signal);
      if (asked.current !== abort) return;
      setError("");
      await use(found);
    } catch (problem) {
      if (problem.name !== "AbortError") setError(problem.message);
    } finally {
      if (asked.current === abort) setBusy(false);
    }
  };
  const loadEnd = () => ask({ find, level }, (found) => setPage(found));
  const toFirstError = async (after) => {
    setFollows(false);
    let place = after;
    for (;;) {
      let found = null;
      await ask({ error: 1, after: place }, (answer) => { found = answer; });
      if (!found) return;
      if (found.lines.length) {
        const at = found.lines[0].at;
        return ask({ after: Math.max(0, at - 8000) }, (around) => {
          const lines = around.begin > 0 ? around.lines.slice(1) : around.lines;
          setPage({ ...around, lines });
          setTarget(at);
        });
      }
      if (!found.more) return setError("There is no error in this log.");
      place = found.end;
    }
  };
  useEffect(() => {
    setTarget(null);
    if (query.get("error") && file) toFirstError(0);
    else loadEnd();
    return () => asked.current && asked.current.abort();
  }, [id, file, find, level]);

  const grow = useRef(null);
  grow.current = () => {
    if (!follows || (asked.current && isBusy)) return;
    if (!file || isFiltered || !page) return loadEnd();
    ask({ after: page.end }, (found) => {
      if (found.size < page.end) return loadEnd(); // it was rotated
      if (found.lines.length) setPage({ ...found, begin: page.begin, lines: joined(page.lines, found.lines).slice(-MOST_LINES) });
    });
  };
  useEffect(() => {
    if (!follows) return undefined;
    return watch([`log:${id}:${file}`], () => grow.current(), onState);
  }, [id, file, follows]);
  useEffect(() => {
    const list = box.current;
    if (!list) return;
    const line = target != null && list.querySelector(".target");
    if (line) line.scrollIntoView({ block: "center" });
    else if (follows) list.scrollTop = list.scrollHeight;
  }, [page, target, follows]);

  const older = () => ask({ before: page.begin, find, level }, (found) => {
    setFollows(false);
    setPage({ ...found, end: page.end, lines: [...found.lines, ...page.lines].slice(0, MOST_LINES) });
  });
  const change = (changes) => go(withQuery({ ...changes, error: "" }), { replaces: true });
  const words = find.split("|").filter((word) => word.trim());
  return html`
    <div class="bar">
      <label>Log <select value=${file} onChange=${(event) => change({ file: event.target.value })}>
        <option value="">all workers, by time</option>
        ${readable.map((each) => html`<option value=${each.key} selected=${each.key === file}>${each.name}${each.size_bytes == null ? "" : ` (${bytes(each.size_bytes)})`}</option>`)}
      </select></label>
      <label>Level <select value=${level} onChange=${(event) => change({ level: event.target.value })}>
        <option value="">all</option><option value="warning" selected=${level === "warning"}>warnings and errors</option><option value="error" selected=${level === "error"}>errors</option></select></label>
      <label>Find <input type="search" value=${find} placeholder="words, or | between them" onChange=${(event) => change({ find: event.target.value })} /></label>
      <label><input type="checkbox" checked=${follows} onChange=${(event) => setFollows(event.target.checked)} /> follow</label>
      <button disabled=${!file || isBusy} title=${file ? "" : "choose one log first"} onClick=${() => toFirstError(0)}>First error</button>
      ${isBusy ? html`<button onClick=${() => { asked.current.abort(); setBusy(false); }}>Cancel</button>` : null}
    </div>
    ${error ? html`<${Problem} text=${error} />` : null}
    ${page && page.left_out ? html`<${Problem} text=${`${page.left_out} more logs are left out here: choose one of them`} />` : null}
    <div class="scroll log" ref=${box} tabindex="0" role="log" aria-label="Log" aria-live=${follows ? "polite" : "off"}>
      ${page && file && page.begin > 0 ? html`<button onClick=${older} disabled=${isBusy}>${isFiltered ? "search further back" : "older lines"}</button>` : null}
      ${page && !page.lines.length ? html`<p class="empty">${isFiltered ? (page.more ? "Nothing found in the part that was searched." : "No line fits.") : "The log is empty."}</p>` : null}
      <ol>${page ? page.lines.map((line) => html`<li key=${`${line.source}${line.at}`} class=${[line.level, line.at === target ? "target" : ""].filter(Boolean).join(" ")}>
        ${line.time_s ? html`<span class="when">${moment(line.time_s)}</span>` : null}${line.source ? html`<span class="from">${line.source}</span>` : null}${marked(line.text, words)}</li>`) : null}</ol>
    </div>`;
}

// The last line that was seen may have been half written.
function joined(known, found) {
  const places = new Set(found.map((line) => line.at));
  return [...known.filter((line) => !places.has(line.at)), ...found];
}

function marked(text, words) {
  if (!words.length) return text;
  const low = text.toLowerCase();
  const parts = [];
  let at = 0;
  for (;;) {
    let hit = -1;
    let length = 0;
    for (const word of words) {
      const found = low.indexOf(word.toLowerCase(), at);
      if (found >= 0 && (hit < 0 || found < hit)) [hit, length] = [found, word.length];
    }
    if (hit < 0 || parts.length > 200) return [...parts, text.slice(at)];
    parts.push(text.slice(at, hit), html`<mark>${text.slice(hit, hit + length)}</mark>`);
    at = hit + length;
  }
}
