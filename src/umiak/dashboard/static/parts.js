// Small parts that several pages have.

import { html } from "/static/vendor/htm-preact.js";

export const State = ({ state }) => html`<span class=${`state ${state}`}>${state}</span>`;

export function Sparkline({ values, label }) {
  if (!values || values.length < 2) return null;
  const low = Math.min(...values);
  const half = Math.max(...values) / 2 - low / 2 || 1; // their difference may be more than a number can be
  const points = values.map((value, at) => `${((at / (values.length - 1)) * 94 + 1).toFixed(1)},${(22 - ((value / 2 - low / 2) / half) * 20).toFixed(1)}`);
  return html`<svg class="spark" viewBox="0 0 96 24" preserveAspectRatio="none" role="img" aria-label=${label}><path d=${`M${points.join("L")}`} /></svg>`;
}

// Text of ours, in which `commands` stand between backticks.
export const Told = ({ text }) => html`${text.split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part))}`;

export const Problem = ({ text }) => html`<p class="problem" role="alert"><${Told} text=${text} /></p>`;

export function go(path, { replaces = false } = {}) {
  if (replaces) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
}

// The query of the address, with some of it changed; what is empty is left out.
export function withQuery(changes) {
  const words = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value == null) words.delete(name);
    else words.set(name, value);
  }
  const text = words.toString();
  return location.pathname + (text ? `?${text}` : "");
}
