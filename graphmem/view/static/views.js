// What each view shows.

import {
  bar, better, bounds, count, dates, el, heading, itemLink, kinds, nearLink, percent, plot, short, showLink, svg, table,
  tag, worked, day,
} from "./dom.js";
import { updates } from "./policies.js";

// Ask: what an agent gets, or what works best

export async function ask(api, _, query) {
  const text = query.get("q") ?? "";
  const form = el("form", { class: "ask", role: "search", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/?q=${encodeURIComponent(event.target.elements.q.value)}`;
  } },
  el("input", {
    type: "search", name: "q", value: text, "aria-label": "A task", maxlength: 5000,
    placeholder: "A task: what works on it?",
  }),
  el("button", { class: "first" }, "Ask"));
  return [form, ...(text.trim() ? await recalled(api, text) : await best(api))];
}

async function best(api) {
  const { strategies } = await api.get("overview");
  if (!strategies.length && !(await api.stats()).stats.episodes) {
    return [el("h1", {}, "This memory is empty"),
      el("p", {}, "Let an agent learn, or read logs: ", el("code", {}, "graphmem seed FILE"))];
  }
  // All is counted for these numbers, so the strategies do not wait for them.
  const counts = el("p", { class: "soft" }, "Counting …");
  api.after(async () => {
    const { stats } = await api.stats();
    counts.textContent = `${count(stats.episodes)} episodes on ${count(stats.tasks)} tasks, ` +
      `${percent(stats.episodes ? stats.successes / stats.episodes : null)} of them succeeded; ${count(stats.strategies)} strategies` +
      (stats.strategies > strategies.length ? `, of which these have the best lower bounds.` : ".");
  }, counts);
  return [
    el("h1", {}, "What works best"),
    counts,
    table([
      ["strategy", (row) => itemLink(row.id, row.text)],
      ["worked", worked, "number"],
      ["rate", (row) => percent(row.mean), "number less"],
      ["bounds", bounds, "bar"],
      ["", (row) => tag(row.status, kinds[row.status]), "less"],
      ["tasks", (row) => count(row.tasks), "number less"],
    ], strategies, "No strategy has been tried yet."),
    el("p", { class: "small soft" }, "A bar shows the bounds within which the rate lies, with 95% certainty; the line in it is the rate. " +
      "Established: the lower bound is over 60%. Refuted: the upper bound is under 40%."),
  ];
}

async function recalled(api, text) {
  const found = await api.get("recall", { text, agent: api.agent() });
  const task = encodeURIComponent(text);
  if (!found.items.length && !found.warnings.length) {
    return [el("p", { class: "card" }, "No task in this memory is like this one, so nothing is known of it. " +
      "Ask in other words, or begin with what works on other tasks."), ...await best(api)];
  }
  return [
    el("h1", {}, found.items.length ? "Try, best first" : "Nothing to try is known"),
    el("p", { class: "soft" }, "First comes what is known from tasks most like this one, and works best there.",
      found.task_type ? ` Type of task: ${found.task_type}.` : ""),
    el("ol", { class: "cards" }, found.items.map((row) => el("li", { class: "card" },
      el("h3", {}, el("a", { href: `#/item/${encodeURIComponent(row.id)}?task=${task}` }, row.text)),
      row.kind === "strategy" ? null : tag(row.kind),
      el("p", {}, el("b", {}, `${percent(row.mean)} expected`), `: ${row.said}`),
      el("p", { class: "small soft" }, way(row.path))))),
    found.warnings.length ? [el("h2", {}, "Avoid"), found.warnings.map(warning)] : null,
    found.tasks.length ? [el("h2", {}, "Tasks behind this"), table([
      ["task", (row) => showLink(row.id, row.text)],
      ["type", (row) => row.task_type, "less"],
      ["similarity", (row) => row.similarity.toFixed(2), "number"],
    ], found.tasks)] : null,
  ].flat();
}

// How it was found, from the task that was asked to the strategy, in words.
const STEPS = [[/^OUTCOME /, "worked there: "], [/^RECOMMENDS /, "worked: "], [/^SIMILAR_TO /, "like it, similarity "],
  [/^CO_OCCURS_WITH /, "used with it, "], [/^HAS_RULE /, "rule, "], [/^TOOK /, "taken "]];

function way(path) {
  const steps = path.slice(1, -1).map((part) => short(STEPS.reduce((text, [name, words]) => text.replace(name, words), part), 90));
  return `found by ${steps.length ? steps.join(" → ") : "its own text"}`;
}

function warning(row) {
  return el("div", { class: "card error" },
    el("h3", {}, itemLink(row.id, row.strategy)),
    el("p", {}, `failed ${count(row.occurrences)} of ${count(row.occurrences + row.successes)} times with `,
      el("b", {}, row.error_class), `; ${row.agent}, ${row.task_types.join(", ")}`),
    better(row.better_alternative));
}

// One belief: the evidence for and against it

const HOW = { recommended: "recommended for tasks of type", "warned against": "warned against because of" };

export async function item(api, id, query) {
  const told = await api.get("explain", { id, agent: api.agent(), task: query.get("task") });
  const { why } = told;
  const episodes = (rows) => table([
    ["", (row) => el("span", { class: row.success ? "good" : "bad" }, row.success ? "✓" : "✗")],
    ["task", (row) => [showLink(row.id, short(row.task)),
      row.error ? el("div", { class: "small bad" }, short(row.error, 200)) : null]],
    ["agent", (row) => row.agent, "less short"],
    ...dates(rows, "at"),
  ], rows, "None.");
  const shares = (title, found) => (found.rows.length ? el("section", {}, el("h2", {}, title),
    table([
      ["", (row) => (row.id ? showLink(row.id, short(row.text ?? row.name, 70)) : short(row.name))],
      ["worked", worked, "number"],
      ["bounds", (row) => bar(row.lower, row.upper, row.successes / row.trials), "bar"],
    ], found.rows),
    found.groups > found.rows.length
      ? el("p", { class: "small soft" }, `${count(found.groups - found.rows.length)} more`) : null) : null);
  return [
    el("p", { class: "soft" }, `${told.kind}${told.agent ? ` of ${told.agent}` : ""}`,
      told.error_class ? ` that ends in ${told.error_class}` : "",
      told.task_types.length && told.kind !== "rule" ? ` on ${told.task_types.join(", ")}` : ""),
    heading(told.text),
    el("p", {}, tag(why.status, kinds[why.status]), why.sentence),
    el("div", { class: "rate" }, bounds(why)),
    told.expected ? el("div", { class: "card" },
      el("p", {}, el("b", {}, `On “${told.on_task}”: `),
        `expected ${percent(told.expected.probability)} (${percent(told.expected.low)} to ${percent(told.expected.high)})`),
      el("details", {}, el("summary", {}, "What this rests on"),
        told.because.map((line) => el("p", { class: "small soft" }, line)))) : null,
    el("p", {}, nearLink(told.id, "What is around it, as a graph")),
    told.what_would_change.length ? [el("h2", {}, "What would change this"),
      el("ul", {}, told.what_would_change.map((turn) => el("li", {}, turn.sentence)))] : null,
    better(told.better_alternative),
    el("h2", {}, "Over time"), overTime(api, told),
    told.kind === "policy" ? [el("h2", {}, "Updates of its value"), updates(api, told.id)] : null,
    el("div", { class: "two" },
      shares("By task", told.by_task), told.agent ? null : shares("By agent", told.by_agent)),
    el("div", { class: "two" },
      el("section", {}, el("h2", {}, "For it, the latest"), episodes(told.supporting)),
      el("section", {}, el("h2", {}, "Against it, the latest"), episodes(told.opposing))),
    el("h2", {}, "Near it"),
    table([
      ["how", (row) => HOW[row.relation] ?? row.relation],
      ["what", (row) => itemLink(row.id, short(row.text))],
      ["worked", (row) => (row.trials ? worked(row) : ""), "number"],
    ], told.neighbours, undefined, { stacked: true }),
  ].flat();
}

function overTime(api, told) {
  const { course } = told;
  if (!course.length && told.strategy) return inOrder(api, told);
  if (!course.length) return el("p", { class: "soft" }, "No evidence has a date, so there is no curve.");
  const times = course.map((point) => Date.parse(point.at));
  const [first, span] = [times[0], times.at(-1) - times[0]];
  const at = (time) => (span ? (time - first) / span : 0.5);
  return [
    plot([{ points: course.map((point, index) => [at(times[index]), ...windowed(point)]), band: true, dots: course.length < 20 }], {
      from: day(course[0].at), to: day(course.at(-1).at), said: "the rate over time, with its bounds",
      marks: told.changes.map((change) => at(Date.parse(change.since))).filter((place) => place >= 0),
    }),
    el("p", { class: "small soft" }, WINDOW),
    told.changes.map((change) => el("p", { class: "change" }, el("b", {}, "Changed: "), change.said)),
  ];
}

const WINDOW = "Each point is the rate of the trials just before it, not of all so far.";
const windowed = (point) => [point.successes / point.trials, point.lower, point.upper];

// Without dates: in the order in which it was learned.
function inOrder(api, told) {
  const out = el("div", {}, el("p", { class: "soft" }, "Loading …"));
  const heuristic = told.kind === "heuristic";
  api.after(async () => {
    const { points } = await api.get("uses", {
      id: told.strategy, agent: told.agent, task_type: heuristic ? told.task_types[0] : null,
    });
    if (!points.length) { out.replaceChildren(el("p", { class: "soft" }, "No episodes yet.")); return; }
    out.replaceChildren(
      plot([{ points: points.map((row, index) => [(index + 1) / points.length, ...windowed(row)]), band: true, dots: points.length < 20 }], {
        from: "first trial", to: `trial ${count(told.why.trials)}`, said: "the rate in the order of learning, with its bounds",
      }),
      el("p", { class: "small soft" }, "The evidence has no dates: this is the order in which it was learned. ", WINDOW));
  }, out);
  return out;
}

// Lessons

export async function lessons(api) {
  const found = await api.get("lessons", { agent: api.agent() });
  const part = (title, { count: all, rows }, columns, nothing, stacked = false) => [
    el("h2", {}, `${title} (${count(all)})`),
    all > rows.length ? el("p", { class: "soft" }, `The first ${count(rows.length)} are shown.`) : null,
    table(columns, rows, nothing, { stacked }),
  ];
  return [
    el("h1", {}, "Lessons"),
    part("What works", found.heuristics, [
      ["strategy", (row) => itemLink(row.id, short(row.strategy))],
      ["on", (row) => row.task_type, "less"],
      ["agent", (row) => row.agent, "less"],
      ["worked", worked, "number"],
      ["rate", (row) => percent(row.confidence), "number less"],
      ["bounds", (row) => bar(row.lower, row.upper, row.confidence), "bar"],
    ], "No strategy has worked often enough yet."),
    part("What fails", found.anti_patterns, [
      ["strategy", (row) => itemLink(row.id, short(row.strategy))],
      ["with", (row) => el("span", { class: "bad" }, row.error_class)],
      ["failed", (row) => `${count(row.occurrences)} of ${count(row.occurrences + row.successes)}`, "number"],
      ["instead", (row) => (row.better_alternative
        ? itemLink(row.better_alternative.id, short(row.better_alternative.strategy)) : ""), "text"],
    ], "Nothing has failed repeatedly in the same way.", true),
    found.anti_patterns.rows.length ? el("p", { class: "small soft" },
      "Failed: failures with this error, of these and what worked on such tasks.") : null,
    part("Rules", found.rules, [
      ["", (row) => tag(row.verdict, /AVOID/i.test(row.verdict) ? "bad" : "good")],
      ["rule", (row) => itemLink(row.id, short(row.text, 240))],
      ["task", (row) => short(row.task ?? "all", 60), "less"],
      ["for", (row) => count(row.supporting), "number"],
      ["against", (row) => count(row.opposing), "number"],
    ], "No rules yet: they come from what episodes list as successes and mistakes."),
    part("Mistakes", found.mistakes, [
      ["kind", (row) => row.type],
      ["task", (row) => short(row.task, 60)],
      ["lesson", (row) => short(row.lesson ?? row.correct_decision ?? "", 240)],
      ["seen", (row) => count(row.seen), "number"],
    ], "No mistakes yet: they come from the mistake cards of episodes."),
  ].flat();
}

// Levels

export async function levels(api) {
  const { levels: found, edges } = await api.get("levels", { agent: api.agent() });
  if (!found.length) {
    return [el("h1", {}, "No levels"),
      el("p", { class: "soft" }, "Agents hold working memory in levels; this memory has none. ",
        el("code", {}, "graphmem levels default"), " makes some.")];
  }
  return [
    el("h1", {}, "Levels, and what flows where"),
    flow(found, edges),
    el("p", { class: "small soft" }, "An arrow leads to a level that pulls at each tick; a thick one has entries pending. ",
      "A long-term level shows what the memory learned, and holds no entries."),
    table([
      ["level", (row) => row.name, "text"],
      ["entries", held, "number"],
      ["pending", (row) => count(row.pending), "number"],
      ["expired", (row) => count(row.expired), "number less"],
      ["stays, seconds", (row) => (row.ttl === null ? "" : count(row.ttl)), "number less"],
      ["at most", (row) => (row.capacity === null ? "" : count(row.capacity)), "number less"],
    ], found, undefined, { stacked: true }),
  ];
}

const held = (level) => (level.holds === "entries" ? count(level.entries) : `shows ${level.holds}`);

function flow(found, edges) {
  const depth = new Map();
  const above = new Map();
  for (const { source, target } of edges) above.set(target, [...(above.get(target) ?? []), source]);
  const deep = (name, seen = new Set()) => {
    if (depth.has(name)) return depth.get(name);
    if (seen.has(name)) return 0;
    const over = (above.get(name) ?? []).map((source) => deep(source, new Set([...seen, name])) + 1);
    depth.set(name, Math.max(0, ...over));
    return depth.get(name);
  };
  const columns = [];
  const entries = new Map(found.map((level) => [level.name, held(level) + (level.holds === "entries" ? " entries" : "")]));
  for (const name of new Set([...entries.keys(), ...edges.flatMap((edge) => [edge.source, edge.target])])) {
    (columns[deep(name)] ??= []).push(name);
  }
  const place = new Map();
  // A box says whose it is below its name, so that the name has room.
  const owned = new Map(found.filter((level) => level.owner).map((level) =>
    [level.name, [level.name.split(":").slice(-level.kind.split(":").length).join(":"), level.owner]]));
  const [wide, high] = [190, 56];
  columns.forEach((names, column) => names?.forEach((name, row) =>
    place.set(name, [10 + column * (wide + 70), 10 + row * (high + 18)])));
  const width = columns.length * (wide + 70) - 50;
  const height = Math.max(...columns.map((names) => names?.length ?? 0)) * (high + 18) + 4;
  return el("div", { class: "wide" }, svg("svg", {
    viewBox: `0 0 ${Math.max(width, 640)} ${height}`, class: "plot states", role: "img", "aria-label": "what pulls from what",
  },
  edges.map(({ source, target, pending, transformer }) => {
    const [from, to] = [place.get(source), place.get(target)];
    const [x, y, x2, y2] = [from[0] + wide, from[1] + high / 2, to[0], to[1] + high / 2];
    return [
      svg("path", {
        class: "arrow", "stroke-width": pending ? 3 : 1.5,
        d: `M${x} ${y} C ${x + 35} ${y} ${x2 - 35} ${y2} ${x2 - 2} ${y2} m -8 -5 l 8 5 l -8 5`,
      }, svg("title", {}, `${source} → ${target}: ${transformer ?? "as it is"}, ${pending} pending`)),
    ];
  }),
  [...place].map(([name, [x, y]]) => [
    svg("rect", { class: "box", x, y, width: wide, height: high, rx: 6 }),
    svg("text", { class: "label", x: x + 12, y: y + 24 }, short(owned.get(name)?.[0] ?? name, 22), svg("title", {}, name)),
    svg("text", { x: x + 12, y: y + 43 }, short((entries.get(name) ?? "a stream") +
      (owned.has(name) ? ` · ${owned.get(name)[1]}` : ""), 26)),
  ])));
}
