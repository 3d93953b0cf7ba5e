// Curves on a canvas, with uPlot. Colours are those of the page, in its light and its dark form.

import { html, useEffect, useRef } from "/static/vendor/htm-preact.js";
import { number, span } from "/static/format.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// series: [{label, x, y, isDots, group}]; all are drawn over the same axis.
export function Chart({ title, series, axis = "samples", height = 190 }) {
  const place = useRef(null);
  const drawn = useRef(null);
  const shape = series.map((each) => each.label).join("\n");
  const data = joined(series);
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const draw = () => {
      if (drawn.current) drawn.current.destroy();
      const line = colour("--line");
      const text = colour("--dim");
      const time = axis === "time";
      drawn.current = new uPlot({
        width: Math.max(200, place.current.clientWidth), height,
        scales: { x: { time } },
        legend: { live: true, markers: { width: 0, fill: (plot, at) => (at ? strokeOf(series[at - 1], at - 1) : null) } },
        cursor: { drag: { x: true, y: false } },
        axes: [
          { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, values: time ? undefined : (plot, ticks) => ticks.map(short) },
          { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, size: 56, values: (plot, ticks) => ticks.map((value) => (Math.abs(value) < 1e4 ? number(value) : short(value))) },
        ],
        series: [
          { label: axis, value: newestOr((value) => (time ? new Date(value * 1000).toLocaleTimeString() : Math.round(value).toLocaleString("en"))) },
          ...series.map((each, at) => ({
            label: each.label, stroke: strokeOf(each, at), width: each.isDots ? 0 : each.isBehind ? 1 : 1.5, spanGaps: true,
            dash: each.isBehind ? [5, 4] : undefined, points: { show: each.isDots || (!each.isBehind && each.y.length < 40), size: each.isDots ? 7 : 4, fill: strokeOf(each, at) },
            paths: each.isDots ? () => null : undefined, value: newestOr(number),
          })),
        ],
      }, latest.current, place.current);
    };
    draw();
    const sized = new ResizeObserver(() => drawn.current && drawn.current.setSize({ width: Math.max(200, place.current.clientWidth), height }));
    sized.observe(place.current);
    dark.addEventListener("change", draw);
    return () => {
      dark.removeEventListener("change", draw);
      sized.disconnect();
      drawn.current.destroy();
      drawn.current = null;
    };
  }, [shape, axis, height]);
  useEffect(() => {
    if (drawn.current) drawn.current.setData(data);
  });
  return html`<section class="chart" data-points=${data[0].length}><h3>${title}</h3><div ref=${place} role="img" aria-label=${summary(title, series)}></div></section>`;
}

// What a legend says of a series: its value at the cursor, and where there is none its newest one.
const newestOr = (written) => (plot, value, at, place) => {
  const shown = place == null ? plot.data[at].findLast((each) => each != null) : value;
  return shown == null ? "" : written(shown);
};
const strokeOf = (each, at) => colour(each.isBehind ? "--dim" : `--c${(each.group ?? at) % 8}`);
const short = (value) => (Math.abs(value) >= 1e6 ? `${+(value / 1e6).toPrecision(4)}M` : Math.abs(value) >= 1e3 ? `${+(value / 1e3).toPrecision(4)}k` : String(value));

function summary(title, series) {
  const parts = series.filter((each) => each.y.length).map((each) => `${each.label}: last ${number(each.y.at(-1))}, lowest ${number(Math.min(...each.y))}, highest ${number(Math.max(...each.y))}`);
  return `${title}. ${parts.join("; ") || "no points yet"}`;
}

// One axis for all series: their places in order, and for each series a value or nothing at each place.
function joined(series) {
  if (series.length === 1) return [series[0].x, series[0].y];
  return uPlot.join(series.map((each) => {
    // uPlot.join wants rising places: of several points at one place the newest counts.
    const x = [];
    const y = [];
    each.x.forEach((value, at) => {
      if (x.length && value <= x.at(-1)) y[y.length - 1] = each.y[at];
      else x.push(value), y.push(each.y[at]);
    });
    return [x, y];
  }));
}

// The charts of some runs: one for each metric, with training and evaluation in it. Behind the curves of one run there may be those of another.
export function chartsOf(runs, axis, behind = null) {
  const byMetric = new Map();
  runs.forEach(({ name, curves }, run) => {
    for (const [curve, points] of Object.entries(curves)) {
      const [kind, metric] = splitName(curve);
      if (kind === "epoch") continue;
      const title = kind === "share" ? "share of time" : kind === "speed" ? "samples per second" : metric;
      const label = [runs.length > 1 ? name : "", kind === "share" ? metric : kind === "evaluated" ? "evaluated" : kind === "speed" ? "samples/s" : "train"].filter(Boolean).join(" ");
      if (kind === "share" && runs.length > 1) continue;
      if (!byMetric.has(title)) byMetric.set(title, []);
      byMetric.get(title).push({ label, x: axis === "time" ? points.time : points.x, y: points.y, isDots: kind === "evaluated", group: runs.length > 1 ? run : undefined, rank: rankOf(kind, metric) });
    }
  });
  for (const [curve, points] of Object.entries(behind ? behind.curves : {})) {
    const [kind, metric] = splitName(curve);
    const title = kind === "speed" ? "samples per second" : metric;
    if (["epoch", "share"].includes(kind) || !byMetric.has(title)) continue;
    const label = `${behind.name}: ${kind === "speed" ? "samples/s" : kind === "evaluated" ? "evaluated" : "train"}`;
    byMetric.get(title).push({ label, x: axis === "time" ? points.time.map((time) => time + behind.later_s) : points.x, y: points.y, isDots: kind === "evaluated", isBehind: true });
  }
  return [...byMetric].map(([title, series]) => ({ title, series })).sort((one, other) => one.series[0].rank - other.series[0].rank || one.title.localeCompare(other.title));
}

const splitName = (name) => [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
const rankOf = (kind, metric) => (kind === "share" ? 9 : kind === "speed" ? 5 : metric === "loss" ? 0 : metric === "auc" ? 1 : 2);

// Generations as bars over time; each says why it ended. A worker that was started again alone is a mark in one.
export function Timeline({ generations, failures, row, now }) {
  if (!generations.length) return null;
  const begin = generations[0].began_s;
  const end = Math.max(generations.at(-1).ended_s ?? now, begin + 1);
  const at = (time) => ((time - begin) / (end - begin)) * 1000;
  const isBad = row.ended_s != null && ["failed", "lost"].includes(row.state);
  const isLast = (each) => each === generations.at(-1);
  const marks = failures.filter((each) => each.again_s != null && each.at_s >= begin && each.at_s <= end);
  return html`<svg class="timeline" viewBox="0 0 1000 34" preserveAspectRatio="none" role="img" aria-label=${`${generations.length} generations in ${span(end - begin)}`}>
    ${generations.map((each) => html`<rect class=${each.cause || (isLast(each) && isBad) ? "broke" : each.ended_s || row.ended_s ? "ended" : ""} x=${at(each.began_s)} y="6" width=${Math.max(2, at(each.ended_s ?? now) - at(each.began_s) - 2)} height="22"><title>${`generation ${each.number}: ${each.cause || "no trouble"}`}</title></rect>`)}
    ${marks.map((each) => html`<rect class="mark" x=${at(each.at_s) - 2} y="1" width="4" height="32"><title>${`${each.who} ${each.text}`}</title></rect>`)}
  </svg>`;
}
