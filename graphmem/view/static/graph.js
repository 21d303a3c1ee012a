// The neighbourhood of a node as a picture, and the same as a table for who cannot see or click it.

import { count, el, itemLink, nearLink, short, showLink, svg, table } from "./dom.js";

const MOST = 200;
const EXPLAINED = new Set(["strategy", "heuristic", "anti-pattern", "rule", "policy"]);
const RINGS = {
  name: "concentric", animate: false, minNodeSpacing: 24, levelWidth: () => 3,
  concentric: (node) => (node.hasClass("open") ? 1000 : node.degree()),
};
const SPRINGS = { name: "cose", animate: false, randomize: false, nodeRepulsion: 40000, idealEdgeLength: 130, padding: 20 };
const SAID = {
  OUTCOME: "tried on", CO_OCCURS_WITH: "used together", SIMILAR_TO: "similar", RECOMMENDS: "recommends",
  WARNS_AGAINST: "warns against", PREFER: "prefers", HAS_RULE: "has rule", RECENT: "attempted by", RAN: "ran",
  ATTEMPTED: "attempted", USED: "used", LISTED: "lists", TOOK: "took", IN_STATE: "in state",
  OPPOSED_BY: "opposed by", DERIVED_FROM: "derived from",
};
// The same, seen from the other end.
const BACK = {
  OUTCOME: "tried on it", RECOMMENDS: "recommended by", WARNS_AGAINST: "warned against by", PREFER: "preferred by", HAS_RULE: "rule of",
  RAN: "run by", USED: "used by", TOOK: "taken by", IN_STATE: "has the action", DERIVED_FROM: "evidence for",
};
const MARKS = { good: "✓ ", bad: "✗ " };
const SHAPES = {
  strategy: "round-rectangle", task: "ellipse", episode: "diamond", agent: "star", policy: "round-tag",
  state: "hexagon", heuristic: "round-rectangle", "anti-pattern": "octagon", rule: "rectangle",
};

function load() {
  if (window.cytoscape) return Promise.resolve();
  return new Promise((done, fail) => document.head.append(el("script", {
    src: "/static/cytoscape.min.js", onload: done,
    onerror: () => fail(new Error("the drawing library could not be loaded")),
  })));
}

// Of an episode whether it worked; of what has trials whether most of them did.
const fate = ({ trials, successes }) => (trials && successes !== null ? (successes / trials >= 0.5 ? "good" : "bad") : "");

function outcome(edge, nodes) {
  if (edge.type === "WARNS_AGAINST") return "bad";
  let { trials, successes } = edge;
  if (successes === null || successes === undefined) {
    const episode = [edge.source, edge.target].map((id) => nodes.get(id)).find((node) => node?.kind === "episode");
    if (!episode) return "";
    ({ trials, successes } = episode);
  }
  return trials ? (successes / trials >= 0.5 ? "good" : "bad") : "";
}

export async function near(api, id) {
  const few = matchMedia("(max-width: 40rem)").matches ? 12 : 24; // so many labels can be read without zooming
  const nodes = new Map();
  const edges = new Map();
  const open = new Set();
  const status = el("p", { class: "small soft", role: "status" });
  const list = el("div");
  const box = el("div", { class: "graph", role: "img", "aria-label": "the graph; the table below has the same" });
  const more = el("button", { hidden: true, onclick: async () => {
    try {
      add(await api.get("neighbourhood", { id }));
      draw();
    } catch (error) {
      status.textContent = error.message;
    }
  } }, `Show up to ${MOST}`);
  let cy = null;

  const add = (told) => {
    let left = 0;
    for (const node of told.nodes) {
      if (nodes.has(node.id)) continue;
      if (nodes.size < MOST) nodes.set(node.id, node);
      else left += 1;
    }
    for (const edge of told.edges) {
      if (nodes.has(edge.source) && nodes.has(edge.target)) {
        edges.set([edge.source, edge.type, edge.target, edge.agent].join(" "), edge);
      }
    }
    open.add(told.id);
    const full = left > 0 || (told.more && nodes.size >= MOST);
    status.textContent = `${count(nodes.size)} nodes, ${count(edges.size)} edges. ` +
      (full
        ? `There are more than ${MOST} nodes, too many to draw; these have the most trials. Open one for its own part.`
        : told.more ? "There is more; these have the most trials." : "Click a node to open it.");
    status.className = full ? "bad" : "small soft";
    more.hidden = full || !told.more;
  };

  add(await api.get("neighbourhood", { id, limit: few }));
  const start = nodes.get(id);
  await load();

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const elements = () => [
    ...[...nodes.values()].map((node) => ({
      data: {
        id: node.id, kind: node.kind, shape: SHAPES[node.kind] ?? "ellipse",
        label: (MARKS[fate(node)] ?? "") + short(node.text, 56).replace(/[_/]/g, "$&\u200b"), // lines may end there
      },
      classes: [open.has(node.id) ? "open" : "", fate(node)].join(" "),
    })),
    ...[...edges].map(([key, edge]) => ({
      data: {
        id: key, source: edge.source, target: edge.target,
        width: Math.min(10, 1 + 1.5 * Math.log2(1 + (edge.trials ?? 0))),
        label: edge.successes === null || edge.successes === undefined ? "" : `${edge.successes} of ${edge.trials}`,
      },
      classes: outcome(edge, nodes),
    })),
  ];
  const style = () => [
    { selector: "node", style: {
      label: "data(label)", shape: "data(shape)", width: 22, height: 22, "font-size": 10, color: colour("--text"),
      "background-color": colour("--soft"), "text-wrap": "wrap", "text-max-width": 110, "text-valign": "bottom",
      "text-margin-y": 3, "min-zoomed-font-size": 7,
    } },
    { selector: "node[kind = 'strategy']", style: { "background-color": colour("--blue") } },
    { selector: "node[kind = 'anti-pattern']", style: { "background-color": colour("--bad") } },
    { selector: "node[kind = 'heuristic']", style: { "background-color": colour("--good") } },
    { selector: "node.good", style: { "border-width": 2, "border-color": colour("--good") } },
    { selector: "node.bad", style: { "border-width": 3, "border-style": "dashed", "border-color": colour("--bad") } },
    { selector: "node.left", style: { "text-halign": "left", "text-valign": "center", "text-margin-x": -4, "text-margin-y": 0, "text-justification": "right", "text-max-width": 190 } },
    { selector: "node.right", style: { "text-halign": "right", "text-valign": "center", "text-margin-x": 4, "text-margin-y": 0, "text-justification": "left", "text-max-width": 190 } },
    { selector: "node.quiet", style: { "text-opacity": 0 } },
    { selector: "node.told, node:selected", style: {
      "text-opacity": 1, "text-background-color": colour("--card"), "text-background-opacity": 0.9, "z-index": 10,
    } },
    { selector: "node.open", style: {
      width: 34, height: 34, "border-width": 3, "border-color": colour("--focus"),
      "text-background-color": colour("--card"), "text-background-opacity": 0.8,
    } },
    { selector: "edge", style: {
      width: "data(width)", "line-color": colour("--soft"), opacity: 0.7, "curve-style": "bezier",
    } },
    { selector: "edge.good", style: { "line-color": colour("--good") } },
    { selector: "edge.bad", style: { "line-color": colour("--bad"), "line-style": "dashed" } },
    { selector: "edge:selected, edge.told", style: { label: "data(label)", "font-size": 10, color: colour("--text") } },
  ];
  // One node: the others on both sides of it (on a phone on one), with room for their labels. More: by springs.
  const place = () => {
    cy.nodes().removeClass("left right quiet");
    const narrow = box.clientWidth < 600;
    if (open.size > 1 || nodes.size > 2 * few) {
      cy.layout(open.size > 1 ? SPRINGS : RINGS).run();
    } else {
      const around = cy.nodes().filter((node) => node.id() !== id);
      const half = narrow ? 0 : Math.ceil(around.length / 2);
      const step = narrow ? 40 : Math.max(40, 480 / Math.max(1, half));
      const at = new Map([[id, { x: 0, y: 0 }]]);
      around.forEach((node, index) => {
        const side = index < half ? -1 : 1;
        const [row, rows] = side < 0 ? [index, half] : [index - half, around.length - half];
        const y = (row - (rows - 1) / 2) * step;
        const bow = Math.sqrt(Math.max(0, 1 - (y / ((rows * step) / 2 + step)) ** 2));
        at.set(node.id(), { x: side * (narrow ? 60 + 40 * bow : 140 + 130 * bow), y });
        node.addClass(side < 0 ? "left" : "right");
      });
      cy.layout({ name: "preset", positions: (node) => at.get(node.id()) }).run();
    }
    cy.fit(undefined, narrow ? 8 : 24);
    quieten();
  };
  // Labels that would lie on others, or on a node, wait until somebody points at their node.
  const quieten = () => {
    const kept = cy.nodes().map((node) => [node.id(), node.renderedBoundingBox({ includeLabels: false, includeOverlays: false })]);
    const apart = (a, b) => a.x2 < b.x1 || b.x2 < a.x1 || a.y2 < b.y1 || b.y2 < a.y1;
    cy.batch(() => {
      for (const node of cy.nodes().sort((a, b) => (b.hasClass("open") - a.hasClass("open")) || b.degree() - a.degree())) {
        node.removeClass("quiet");
        const its = node.renderedBoundingBox({ includeNodes: false, includeOverlays: false, includeLabels: true });
        if (kept.every(([other, one]) => other === node.id() || apart(its, one))) kept.push([node.id(), its]);
        else node.addClass("quiet");
      }
    });
  };
  let soon = 0;
  const later = () => { clearTimeout(soon); soon = setTimeout(quieten, 120); };

  const others = () => {
    const rows = [...edges.values()].map((edge) => {
      const otherwise = open.has(edge.source) && edge.source === id ? edge.target : edge.source;
      return { edge, node: nodes.get(otherwise === id ? edge.target : otherwise) };
    }).sort((a, b) => (b.edge.trials ?? 0) - (a.edge.trials ?? 0));
    list.replaceChildren(table([
      ["how", ({ edge, node }) => (edge.source === node.id ? BACK[edge.type] : null) ?? SAID[edge.type] ?? edge.type],
      ["what", ({ node }) => nearLink(node.id, short(node.text))],
      ["kind", ({ node }) => node.kind, "less"],
      ["worked", ({ edge }) => (edge.successes === null || edge.successes === undefined
        ? "" : el("span", { class: outcome(edge, nodes) }, `${MARKS[outcome(edge, nodes)] ?? ""}${count(edge.successes)} of ${count(edge.trials)}`)), "number"],
      ["", ({ node }) => (open.has(node.id) ? "" : el("button", { class: "small", onclick: () => expand(node.id) }, "Open")), "short"],
    ], rows, "Nothing is around it.", { stacked: true }));
  };
  const draw = () => {
    cy.json({ elements: elements() });
    place();
    others();
  };
  const expand = async (which) => {
    if (open.has(which)) { location.hash = `#/near/${encodeURIComponent(which)}`; return; }
    try {
      add(await api.get("neighbourhood", { id: which, limit: few }));
      draw();
    } catch (error) {
      status.textContent = error.message;
    }
  };
  api.after(() => {
    cy = window.cytoscape({ container: box, elements: elements(), style: style(), maxZoom: 2, minZoom: 0.1 });
    place();
    cy.on("tap", "node", (event) => expand(event.target.id()));
    cy.on("mouseover", "edge, node", (event) => event.target.addClass("told"));
    cy.on("mouseout", "edge, node", (event) => event.target.removeClass("told"));
    cy.on("zoom dragfree", later);
    cy.on("resize", place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cy.style(style()));
    others();
  }, list);
  const zoomed = (factor) => () => cy.zoom({
    level: cy.zoom() * factor, renderedPosition: { x: box.clientWidth / 2, y: box.clientHeight / 2 },
  });
  const line = (kind) => svg("svg", { width: 30, height: 8, "aria-hidden": "true" },
    svg("line", { class: `line ${kind}`, x1: 0, x2: 28, y1: 4, y2: 4 }));
  return [
    el("p", { class: "soft" }, start.kind),
    el("h1", {}, short(start.text, 300)),
    el("p", {}, EXPLAINED.has(start.kind) ? itemLink(start.id, "The evidence for it")
      : start.kind === "agent" ? null : showLink(start.id, "All that is known of it")),
    status,
    more,
    box,
    el("div", { class: "actions" },
      el("button", { class: "small", onclick: zoomed(1.3), "aria-label": "Larger" }, "+"),
      el("button", { class: "small", onclick: zoomed(1 / 1.3), "aria-label": "Smaller" }, "−"),
      el("button", { class: "small", onclick: () => { cy.fit(undefined, 24); quieten(); } }, "All of it")),
    el("p", { class: "legend" },
      el("span", {}, line("good"), " ✓ mostly worked"), el("span", {}, line("bad"), " ✗ mostly failed"),
      el("span", {}, line("none"), " no outcome"), el("span", {}, "thicker: more trials")),
    list,
  ];
}
