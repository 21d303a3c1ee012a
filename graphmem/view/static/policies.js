// Policies: the actions of a state as arrows to where they lead, and how the value of one changed.

import { bounds, count, dates, el, itemLink, percent, plot, short, svg, table, worked } from "./dom.js";

const value = (one) => (typeof one === "string" ? one : JSON.stringify(one));
const features = (row) => {
  const told = Object.entries(row.features ?? {});
  return told.length ? told.map(([name, one]) => `${name}: ${value(one)}`).join(", ") : row.state;
};
const action = (row) => row.action + (row.spec === null ? "" : ` ${JSON.stringify(row.spec)}`);

export async function policies(api, state) {
  const { policies: found, next } = await api.get("policies", { state, agent: api.agent() });
  if (!state) {
    // Without updates all values are 0: then the bounds of what worked say which action is best.
    const ranked = found.toSorted((one, other) => other.q - one.q || (other.lower ?? 0) - (one.lower ?? 0));
    const seen = [...new Map(ranked.toReversed().map((row) => [row.state, row])).values()].toReversed();
    const valued = found.some((row) => row.updates);
    return [
      el("h1", {}, valued ? "States with the best values" : "States"),
      valued || !seen.length ? null : el("p", { class: "soft" },
        "No action has a value yet: values come from rewards. Counts come from the steps of episodes."),
      table([
        ["state", (row) => el("a", { href: `#/policies/${encodeURIComponent(row.state)}` }, short(features(row)))],
        ["best action", (row) => short(action(row), 80)],
        ["value", (row) => (row.updates ? row.q.toFixed(3) : "–"), "number"],
        ["worked", worked, "number"],
        ["agent", (row) => row.agent, "less"],
      ], seen, "No policy has been learned; agents learn them from steps with states."),
    ];
  }
  if (!found.length) return [el("h1", {}, "No such state"), el("p", {}, el("a", { href: "#/policies" }, "All states"))];
  const shown = found.slice(0, 12);
  return [
    el("p", {}, el("a", { href: "#/policies" }, "All states")),
    el("h1", {}, short(features(found[0]), 400)),
    el("div", { class: "wide" }, arrows(shown, next, found[0])),
    el("p", { class: "small soft" }, "Best first. Green: mostly worked; dashed: mostly failed; thicker: more trials and updates. ",
      "A box on the right opens that state."),
    table([
      ["action", (row) => itemLink(row.id, short(action(row)))],
      ["value", (row) => row.score.toFixed(3), "number"],
      ["worked", worked, "number"],
      ["bounds", bounds, "bar"],
      ["updates", (row) => count(row.updates), "number less"],
      ["leads to", (row) => {
        const its = next.filter((one) => one.policy === row.id);
        return its.slice(0, 5).map((one) => el("div", {}, leads(one, found[0])));
      }, "text less"],
      ["agent", (row) => row.agent, "less"],
    ], found),
  ];
}

// What differs from the present state is enough to know the next one.
function change(one, from) {
  if (!one.features) return one.state ?? "the end";
  let told;
  try { told = JSON.parse(one.features); } catch { return one.features; }
  const old = from.features ?? {};
  const names = [...new Set([...Object.keys(told), ...Object.keys(old)])];
  const differ = names.filter((name) => JSON.stringify(told[name]) !== JSON.stringify(old[name]));
  if (!differ.length) return "the same state";
  return differ.map((name) => `${name}: ${name in told ? value(told[name]) : "none"}`).join(", ");
}

const leads = (one, from) => [
  one.state ? el("a", { href: `#/policies/${encodeURIComponent(one.state)}` }, short(change(one, from), 60)) : change(one, from),
  ` ${count(one.times)}×`,
];

// Each action has a row; a box on the right is the state to which it led most often.
function arrows(rows, next, from) {
  const height = 40 * rows.length + 16;
  const most = Math.max(1, ...rows.map((row) => row.trials + row.updates));
  const middle = height / 2;
  return svg("svg", { viewBox: `0 0 900 ${height}`, class: "plot states", role: "group", "aria-label": "the actions of this state, best first" },
    rows.map((row, index) => {
      const y = 28 + 40 * index;
      const kind = row.trials === 0 ? "" : row.successes / row.trials >= 0.5 ? "good" : "bad";
      const wide = 1 + (5 * (row.trials + row.updates)) / most;
      const its = next.filter((one) => one.policy === row.id);
      const all = its.reduce((sum, one) => sum + one.times, 0);
      const [first] = its;
      const box = first && [
        svg("rect", { class: "box", x: 612, y: y - 15, width: 280, height: 30, rx: 6 }),
        svg("text", { class: "label", x: 622, y: y + 5 },
          short(change(first, from), 30), its.length > 1 ? ` (${percent(first.times / all)})` : ""),
      ];
      return [
        svg("path", { class: `arrow ${kind}`, d: `M84 ${middle} C 150 ${middle} 130 ${y} 196 ${y}`, "stroke-width": wide }),
        svg("path", { class: `arrow head ${kind}`, d: `M192 ${y - 6} l 11 6 l -11 6 z` }),
        svg("a", { href: `#/item/${encodeURIComponent(row.id)}` },
          svg("text", { class: "label", x: 212, y: y + 4 }, `${index + 1}. ${short(action(row), 32)}`)),
        svg("text", { x: 505, y: y + 4, "text-anchor": "end" }, row.score.toFixed(3)),
        first && [
          svg("path", { class: `arrow ${kind}`, d: `M516 ${y} L 596 ${y}`, "stroke-width": wide }),
          svg("path", { class: `arrow head ${kind}`, d: `M594 ${y - 6} l 11 6 l -11 6 z` }),
          first.state ? svg("a", { href: `#/policies/${encodeURIComponent(first.state)}`, "aria-label": `leads to ${change(first, from)}` }, box) : box,
        ],
      ];
    }),
    svg("rect", { class: "box", x: 8, y: middle - 15, width: 76, height: 30, rx: 6 }),
    svg("text", { class: "label", x: 46, y: middle + 5, "text-anchor": "middle" }, "here"));
}

// All events of the agent are replayed for this, so the page does not wait.
export function updates(api, id) {
  const out = el("div", { "aria-live": "polite" }, el("p", { class: "soft" }, "Loading …"));
  api.after(async () => {
    const { points, count: all } = await api.get("history", { id });
    const learned = points.filter((point) => point.td_error !== null);
    if (!learned.length) {
      out.replaceChildren(el("p", { class: "soft" }, "Its value was never updated: its episodes were counted, ",
        "but no rewards were learned from them (graphmem policies learn does that)."));
      return;
    }
    const values = learned.map((point) => point.q);
    const [low, high] = [Math.min(0, ...values), Math.max(...values, 0)];
    const span = high - low || 1;
    out.replaceChildren(
      plot([{ points: values.map((value, index) => [(index + 0.5) / values.length, (value - low) / span]), dots: values.length < 40 }], {
        from: "first shown", to: "latest", said: "the value after each update",
        labels: [0, 0.5, 1].map((share) => [share, (low + share * span).toPrecision(3)]),
      }),
      el("p", { class: "small soft" }, all > points.length ? `The latest ${count(points.length)} of ${count(all)} events.` : `${count(all)} events.`),
      table([
        ["event", (row) => row.kind],
        ["value", (row) => row.q.toFixed(4), "number"],
        ["TD error", (row) => (row.td_error === null ? "" : row.td_error.toFixed(4)), "number"],
        ["worked", worked, "number"],
        ...dates(points, "at"),
      ], points.toReversed()));
  }, out);
  return out;
}
