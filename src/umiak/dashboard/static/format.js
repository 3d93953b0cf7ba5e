// Numbers and times as people read them.

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (let at = 0; at < UNITS.length; at++) {
    const [size, unit] = UNITS[at];
    if (whole < size) continue;
    let text = `${Math.floor(whole / size)} ${unit}`;
    if (size > 60 && whole < 100 * size) {
      const [small, name] = UNITS[at + 1];
      const rest = Math.floor((whole % size) / small);
      if (rest) text += ` ${rest} ${name}`;
    }
    return text;
  }
  return "0 s";
}

export const ago = (time, now) => (time == null ? "" : span(now - time));
export const clock = (time) => (time == null ? "" : new Date(time * 1000).toLocaleString());

export function moment(time) {
  if (time == null) return "";
  const date = new Date(time * 1000);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function number(value) {
  if (value == null) return "";
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size !== 0 && size < 0.001) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

export function bytes(count) {
  if (count == null) return "";
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  }
  return `${count} bytes`;
}

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

// "train/auc" is shown as "auc".
export const metricName = (name) => name.replace(/^train\//, "").replace(/^(evaluated|epoch)\/(.*)$/, "$2 ($1)");

// How long a request took.
export function took(seconds) {
  if (seconds == null) return "-";
  const [size, unit] = seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e-3, "ms"] : [1e-6, "\u00b5s"];
  return `${Number((seconds / size).toPrecision(3))} ${unit}`;
}
