// Places where jobs run: what each is, whether it answers, what was found there, and its queue. A place that hangs says since when.

import { html, useEffect, useState } from "/static/vendor/htm-preact.js";
import { get, watch } from "/static/api.js";
import { span } from "/static/format.js";
import { Problem, State } from "/static/parts.js";

const WORDS = { ok: "answers", warning: "answers, with warnings", problem: "does not work", skipped: "was not examined" };

export function Places({ onState }) {
  const [data, setData] = useState(null);
  const [error, setError] = useState("");
  const [moment, setMoment] = useState(0);
  useEffect(() => {
    let isGone = false;
    const load = () => get("/places").then((found) => !isGone && (setData({ ...found, fetched: Date.now() / 1000 }), setError("")), (problem) => !isGone && setError(problem.message));
    const stop = watch(["places"], load, onState);
    const clockwork = setInterval(() => setMoment((count) => count + 1), 1000);
    return () => ((isGone = true), clearInterval(clockwork), stop());
  }, []);
  if (!data) return error ? html`<h1>Places</h1><${Problem} text=${error} />` : html`<p class="wait">Reading the places ...</p>`;
  const later = Date.now() / 1000 - data.fetched + 0 * moment;
  return html`<h1>Places</h1>
    ${error ? html`<${Problem} text=${error} />` : null}
    ${data.problems.map((text) => html`<${Problem} text=${text} />`)}
    ${data.places.length ? data.places.map((place) => html`<${Place} key=${place.name} place=${place} later=${later} />`) : html`<p class="empty">No place is known here: they stand in umiak.toml, or in your own config.toml.</p>`}`;
}

function Place({ place, later }) {
  const { doctor, queue } = place;
  const found = doctor.answer;
  const verdict = doctor.problem ? "problem" : found ? found.verdict : "";
  const words = doctor.problem ? "does not answer" : found ? WORDS[found.verdict] || found.verdict : "is asked for the first time";
  const about = [doctor.age_s == null ? "" : `answered ${span(doctor.age_s + later)} ago, after ${doctor.took_s.toFixed(1)} s`, place.asking_s == null ? "" : `asking for ${span(place.asking_s + later)}, for at most ${2 * place.limit_s} s`].filter(Boolean).join("; ");
  const counts = queue.answer ? Object.entries(queue.answer.counts) : [];
  return html`<section class="panel place" aria-label=${place.name} data-place=${place.name}>
    <h2><span class=${`state ${{ ok: "succeeded", problem: "failed", warning: "lost" }[verdict] || ""}`}>${words}</span> ${place.name} <small class="dim">${place.backend}${place.is_default ? ", the default" : ""}</small></h2>
    <p class="hint">${place.source}${about ? `; ${about}` : ""}</p>
    ${doctor.problem ? html`<${Problem} text=${doctor.problem} />` : null}
    ${found ? html`<ul class="findings">${found.findings.map((each) => html`<li class=${each.verdict}><strong>${each.verdict}</strong> ${each.text}${each.code ? html` <span class="dim">[${each.code}]</span>` : null}${each.hint ? html`<br /><span class="dim">${each.hint}</span>` : null}</li>`)}</ul>` : null}
    <h3>Queue</h3>
    ${queue.answer || queue.problem ? null : html`<p class="hint">Not asked yet.</p>`}
    ${queue.problem ? html`<${Problem} text=${queue.problem} />` : null}
    ${queue.answer ? html`<p>${counts.length ? counts.map(([state, count]) => `${count} ${state}`).join(", ") : verdict === "problem" ? "Nothing is known of it." : "It knows of no run."}</p>
      ${queue.answer.runs.length ? html`<ul>${queue.answer.runs.map((run) => html`<li><${State} state=${run.state} /> ${run.run ? html`<a href=${`/runs?q=${encodeURIComponent(run.run)}`}>${run.name}</a>` : run.name} <span class="dim">${run.handle}</span></li>`)}</ul>` : null}
      ${queue.answer.left_out ? html`<p class="hint">${queue.answer.left_out} more</p>` : null}` : null}
  </section>`;
}
