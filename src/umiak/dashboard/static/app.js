// The page: which address shows what, and keys that work everywhere.

import { html, render, useEffect, useState } from "/static/vendor/htm-preact.js";
import { about, beginSession, enter, get, NoToken } from "/static/api.js";
import { Compare } from "/static/compare.js";
import { go } from "/static/parts.js";
import { Places } from "/static/places.js";
import { Run } from "/static/run.js";
import { Runs } from "/static/runs.js";

const PAGES = [["runs", "Runs", Runs], ["compare", "Compare", Compare], ["places", "Places", Places]];
const STATES = { live: "live", waiting: "not connected: trying again", paused: "paused" };

function App() {
  const [, setCount] = useState(0);
  const [state, setState] = useState("");
  const [keys, setKeys] = useState(false);
  useEffect(() => {
    const changed = () => setCount((count) => count + 1);
    const clicked = (event) => {
      const link = event.target.closest("a[href]");
      if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || link.origin !== location.origin) return;
      if (link.hasAttribute("download") || link.getAttribute("href").startsWith("#")) return;
      event.preventDefault();
      go(link.getAttribute("href"));
      scrollTo(0, 0);
    };
    const pressed = (event) => {
      if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
      const filter = document.getElementById("filter");
      if (event.key === "/" && filter) filter.focus();
      else if (event.key === "?") setKeys(true);
      else if (event.key === "g") go("/runs");
      else return;
      event.preventDefault();
    };
    addEventListener("popstate", changed);
    addEventListener("click", clicked);
    addEventListener("keydown", pressed);
    return () => {
      removeEventListener("popstate", changed);
      removeEventListener("click", clicked);
      removeEventListener("keydown", pressed);
    };
  }, []);
  const words = location.pathname.split("/").filter(Boolean);
  const isRun = words[0] === "runs" && words[1];
  const page = PAGES.find(([name]) => name === words[0]) || PAGES[0];
  if (!isRun) document.title = `${page[1]} - umiak`;
  return html`
    <a class="skip" href="#main">To the content</a>
    <header class="top"><a class="brand" href="/runs">umiak</a>
      <nav aria-label="Pages">${PAGES.filter(([name]) => name !== "places" || !about.is_cluster).map(([name, title]) => html`<a href=${`/${name}`} aria-current=${!isRun && name === page[0] ? "page" : undefined}>${title}</a>`)}</nav>
      <span class="connection" role="status">${STATES[state] || ""}</span><button onClick=${() => setKeys(true)} aria-label="Keys">?</button></header>
    <main id="main" tabindex="-1">${isRun ? html`<${Run} key=${words[1]} id=${decodeURIComponent(words[1])} onState=${setState} />` : html`<${page[2]} key=${page[0]} onState=${setState} />`}</main>
    ${keys ? html`<${Keys} onClose=${() => setKeys(false)} />` : null}`;
}

function Keys({ onClose }) {
  const opened = (dialog) => dialog && !dialog.open && dialog.showModal();
  const rows = [["/", "filter"], ["j k", "next, previous run (arrows as well)"], ["Enter", "open the run"], ["x", "pick it to compare"], ["g", "back to the list"], ["?", "this"]];
  return html`<dialog ref=${opened} onClose=${onClose} aria-label="Keys"><h2>Keys</h2><table class="plain"><tbody>${rows.map(([key, text]) => html`<tr><th scope="row"><kbd>${key}</kbd></th><td>${text}</td></tr>`)}</tbody></table>
    <form method="dialog"><button>Close</button></form></dialog>`;
}

// The page of a cluster: the token stays in this page until it is exchanged for a cookie that no script can read.
function Enter({ text }) {
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    const { token, namespaces } = event.target.elements;
    setBusy(true);
    try {
      await enter(token.value, namespaces.value);
      token.value = "";
      location.reload();
    } catch (problem) {
      setError(problem.message);
      setBusy(false);
    }
  };
  return html`<main><h1>PaddleJobs of this cluster</h1><p>${text}</p><p>You see what your own token may see; this server has no rights of its own.</p>
    ${error ? html`<p class="problem" role="alert">${error}</p>` : null}
    <form class="enter" onSubmit=${send}>
      <label>Token <input name="token" type="password" autocomplete="off" required spellcheck="false" /></label>
      <label>Namespaces, if you may not list all <input name="namespaces" placeholder="training, lab" autocomplete="off" spellcheck="false" /></label>
      <button disabled=${isBusy}>${isBusy ? "asking the cluster ..." : "Enter"}</button></form></main>`;
}

function Locked({ text }) {
  return html`<main><h1>This dashboard does not know you</h1><p>${text}</p><p>Open the address that <code>umiak dashboard</code> printed: the token is in it, behind the #.</p></main>`;
}

const place = document.getElementById("app");
try {
  await beginSession();
  Object.assign(about, await get("/about"));
  place.textContent = "";
  render(html`<${App} />`, place);
} catch (problem) {
  place.textContent = "";
  if (problem instanceof NoToken && problem.isCluster) render(html`<${Enter} text=${problem.message} />`, place);
  else render(html`<${Locked} text=${problem instanceof NoToken ? problem.message : `The server can't be asked: ${problem.message}`} />`, place);
}
