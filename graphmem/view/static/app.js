// The page: which view is shown, and how it asks.

import { count, el } from "./dom.js";
import { near } from "./graph.js";
import { policies } from "./policies.js";
import { show } from "./show.js";
import { trust } from "./trust.js";
import { ask, item, lessons, levels } from "./views.js";

const main = document.getElementById("main");
const agents = document.getElementById("agent");
const notice = document.getElementById("notice");
const views = { "": ask, item, near, show, lessons, policies, levels, trust };
let shown = 0;
let kept = null;

export class Refusal extends Error {}

async function answered(response) {
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw new Refusal(`the server answered ${response.status} without JSON`);
  }
  if (!response.ok) throw new Refusal(answer.error?.message ?? `the server answered ${response.status}`);
  const age = answer.snapshot_age;
  notice.hidden = !(age >= 2);
  if (!notice.hidden) {
    notice.textContent = `A snapshot, ${age.toFixed(1)} s old: another process may be writing.`;
  }
  return answer;
}

async function fetched(name, given, method) {
  const wanted = Object.entries(given).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  let response;
  try {
    response = await fetch(`/api/${name}?${new URLSearchParams(wanted)}`, { method });
  } catch {
    throw new Refusal("the server does not answer; is graphmem ui still running?");
  }
  return answered(response);
}

const api = {
  get: (name, given = {}) => fetched(name, given, "GET"),
  post: (name, given = {}) => fetched(name, given, "POST"),
  agent: () => agents.value,
  // The footer and the first view ask for the same: they get one answer.
  stats: () => {
    kept ??= fetched("stats", {}, "GET").finally(() => setTimeout(() => { kept = null; }, 2000));
    return kept;
  },
};

export function failed(error) {
  return el("div", { class: "card error", role: "alert" },
    el("strong", {}, "That did not work: "), error.message);
}

async function shownNow() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const turn = (shown += 1);
  for (const link of document.querySelectorAll("nav a")) {
    const its = link.getAttribute("href").replace(/^#\/?/, "");
    if (its === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.setAttribute("aria-busy", "true");
  const later = setTimeout(() => {
    if (turn === shown) main.replaceChildren(el("p", { class: "soft" }, "Loading …"));
  }, 300);
  const queue = []; // what the view can do without comes later, in its place
  let content;
  try {
    const view = views[name];
    if (!view) throw new Refusal("there is no such view");
    content = await view({ ...api, after: (work, place) => queue.push([work, place]) }, rest.join("/"), new URLSearchParams(query));
  } catch (error) {
    content = [failed(error)];
    if (!(error instanceof Refusal)) console.error(error);
  }
  clearTimeout(later);
  if (turn !== shown) return;
  main.replaceChildren(...content.flat(Infinity).filter(Boolean));
  main.setAttribute("aria-busy", "false");
  performance.mark("shown");
  for (const [work, place] of queue) {
    Promise.resolve().then(work).catch((error) => {
      place.replaceChildren(failed(error));
      if (!(error instanceof Refusal)) console.error(error);
    });
  }
  document.title = `${main.querySelector("h1")?.textContent ?? "graphmem"} · graphmem`;
}

async function about() {
  try {
    const { stats, write } = await api.stats();
    document.getElementById("about").replaceChildren(
      `${stats.url} · namespace ${stats.namespace} · ${stats.engine} · ${count(stats.episodes)} episodes` +
      ` · ${write ? "may write" : "read only"}`);
    const { agents: names } = await api.get("agents");
    agents.append(...names.map((name) => el("option", { value: name }, name)));
  } catch { /* the view says what failed */ }
}

addEventListener("hashchange", () => { shownNow().then(() => main.focus({ preventScroll: true })); scrollTo(0, 0); });
agents.addEventListener("change", shownNow);
addEventListener("keydown", (event) => {
  if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement?.tagName ?? "")) {
    const box = document.querySelector("input[type=search]");
    if (box) { event.preventDefault(); box.focus(); } else location.hash = "#/";
  }
});
await shownNow();
about();
