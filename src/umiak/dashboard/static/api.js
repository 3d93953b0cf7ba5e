// What the page asks of its server: data, and what changes. The token of the address becomes a cookie once, and leaves the address.

const TOKEN_HEADER = "X-Umiak-Dashboard-Token";
const NAMESPACES_HEADER = "X-Umiak-Dashboard-Namespaces";
const ACTION_HEADER = "X-Umiak-Dashboard-Action";

// The person who asks has no token that is known here. Of a cluster's page it is one of the cluster's own, which a person can enter.
export class NoToken extends Error {
  constructor(text, isCluster = false) {
    super(text);
    this.isCluster = isCluster;
  }
}

export async function beginSession() {
  const found = /^#t=(.+)$/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", location.pathname + location.search);
  await enter(decodeURIComponent(found[1]));
}

export async function enter(token, namespaces = "") {
  const headers = { [TOKEN_HEADER]: token.trim(), ...(namespaces.trim() ? { [NAMESPACES_HEADER]: namespaces.trim() } : {}) };
  const answer = await fetch("/session", { method: "POST", headers });
  if (!answer.ok) throw new NoToken((await answer.text()).trim());
}

export async function get(path, query = {}, signal = undefined) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") words.set(name, value);
  const text = words.toString();
  const answer = await fetch(`${path}.json${text ? `?${text}` : ""}`, { headers: { Accept: "application/json" }, signal });
  if (answer.status === 401) throw new NoToken((await answer.text()).trim() || "no token", (answer.headers.get("WWW-Authenticate") || "").includes("kubernetes"));
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return answer.json();
}

// What this dashboard may do, with the key that it wants to hear again.
export const about = { allowed: [], action_key: "" };

export async function act(path) {
  const answer = await fetch(path, { method: "POST", headers: { [ACTION_HEADER]: about.action_key, Accept: "application/json" } });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return answer.json();
}

// Calls onEvent for every change of these topics, and onEvent({topic: "hello"}) where everything has to be asked for again. A page that nobody sees
// listens to nothing, and catches up when it is looked at.
export function watch(topics, onEvent, onState = () => {}) {
  let source = null;
  let last = "";
  let timer = 0;
  const heard = (event) => {
    if (event.lastEventId) last = event.lastEventId;
    onState("live");
    onEvent(JSON.parse(event.data));
  };
  const open = () => {
    close();
    const words = new URLSearchParams({ topics: topics.join(",") });
    if (last) words.set("last", last);
    source = new EventSource(`/events?${words}`);
    source.onopen = () => onState("live");
    source.onmessage = heard;
    source.addEventListener("hello", heard);
    source.onerror = () => {
      onState("waiting");
      if (source && source.readyState === EventSource.CLOSED) timer = setTimeout(open, 3000);
    };
  };
  const close = () => {
    clearTimeout(timer);
    if (source) source.close();
    source = null;
  };
  const seen = () => (document.hidden ? (close(), onState("paused")) : open());
  document.addEventListener("visibilitychange", seen);
  open();
  return () => {
    document.removeEventListener("visibilitychange", seen);
    close();
  };
}
