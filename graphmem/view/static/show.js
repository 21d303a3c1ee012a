// Anything that has an id, above all an episode: what was done, and what came of it.

import { bounds, count, dates, el, heading, itemLink, nearLink, short, showLink, table, tag, worked } from "./dom.js";

const BELIEFS = new Set(["strategy", "heuristic", "anti-pattern", "rule", "policy"]);
const link = (row) => {
  if (!row.id) return short(row.text);
  return (BELIEFS.has(row.kind) ? itemLink : showLink)(row.id, short(row.text ?? row.id, 200));
};
const SAID = new Set(["task", "text", "success"]);

export async function show(api, id) {
  const told = await api.get("show", { id });
  const { fields } = told;
  // A table below shows with more what was tried on a task.
  const links = told.strategies ? told.links.filter((row) => row.kind !== "strategy") : told.links;
  return [
    el("p", { class: "soft" }, told.kind),
    heading(short(fields.task ?? fields.text ?? fields.name ?? told.id, 400)),
    told.kind === "episode" ? outcome(fields) : null,
    el("p", {}, nearLink(told.id, "What is around it, as a graph"),
      BELIEFS.has(told.kind) ? [" · ", itemLink(told.id, "The evidence for it")] : null,
      told.kind === "task" ? [" · ", el("a", { href: `#/?q=${encodeURIComponent(fields.text)}` }, "What works on it")] : null),
    links.length || !told.strategies?.length ? table([
      ["", (row) => row.relation], ["linked with", link, "text"], ["kind", (row) => row.kind, "less"],
    ], links, "It is linked with nothing.") : null,
    told.strategies ? [el("h2", {}, "What was tried on it"), table([
      ["strategy", (row) => itemLink(row.id, short(row.text))], ["worked", worked, "number"], ["rate, bounds", bounds, "bar"],
    ], told.strategies)] : null,
    told.episodes ? [el("h2", {}, "The latest episodes"), table([
      ["", (row) => el("span", { class: row.success ? "good" : "bad" }, row.success ? "✓ worked" : "✗ failed"), "short"],
      ["strategies", (row) => showLink(row.id, short(row.strategies.join("; ") || row.id))],
      ["agent", (row) => row.agent, "less short"], ...dates(told.episodes, "at"),
    ], told.episodes)] : null,
    told.kind === "episode" ? [el("h2", {}, `Steps (${count(fields.steps)})`),
      told.steps.length < (fields.steps ?? 0) ? el("p", { class: "soft" }, `The first ${count(told.steps.length)} are shown.`) : null,
      table([
        ["", (row) => row.index + 1, "number"],
        ["action", (row) => el("code", {}, short([row.action_type, row.action].filter(Boolean).join(" "), 500)), "text"],
        ["observation", (row) => [short(row.observation, 500),
          row.error ? el("div", { class: "small bad" }, short(row.error, 300)) : null], "text"],
        ...(told.steps.some((row) => row.reward !== null) ? [["reward", (row) => row.reward ?? "", "number"]] : []),
      ], told.steps, "No steps were recorded.", { stacked: true })] : null,
    el("h2", {}, "All that is known of it"),
    el("dl", {}, Object.entries(fields).filter(([name]) => !SAID.has(name)).map(([name, value]) =>
      [el("dt", {}, name.replaceAll("_", " ")),
        el("dd", {}, short(typeof value === "string" ? value : JSON.stringify(value), 4000))]),
    el("dt", {}, "id"), el("dd", {}, told.id)),
    told.kind === "episode" && told.write ? erasing(api, told.id) : null,
  ].flat();
}

function outcome(fields) {
  return [
    el("p", {}, tag(fields.success ? "✓ worked" : "✗ failed", fields.success ? "good" : "bad"),
      `score ${fields.score}`, fields.reward === undefined ? "" : `, reward ${fields.reward}`),
    fields.error ? el("p", { class: "bad" }, short(fields.error, 1000)) : null,
    fields.feedback ? el("p", {}, el("b", {}, "Feedback: "), short(fields.feedback, 2000)) : null,
  ];
}

// Erasing cannot be undone, so it takes two presses.
function erasing(api, id) {
  const out = el("p", { "aria-live": "polite" });
  let sure = false;
  const button = el("button", { onclick: async () => {
    if (!sure) {
      sure = true;
      button.textContent = "Erase it for good";
      out.textContent = "It and its share of every number would be gone. Press again to erase it.";
      return;
    }
    button.disabled = true;
    try {
      await api.post("erase", { id });
      button.remove();
      out.textContent = "It was erased.";
    } catch (error) {
      out.replaceChildren(el("span", { class: "bad", role: "alert" }, error.message));
      button.disabled = false;
    }
  } }, "Erase this episode");
  return [el("h2", {}, "Erase"), el("div", { class: "actions" }, button), out];
}
