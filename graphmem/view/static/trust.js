// Trust: the course of each agent, whether predictions hold, whether the numbers follow from the facts.

import { count, el, percent, plot, short, spark, svg, table } from "./dom.js";

const inks = ["", "b", "c", "d"]; // more lines in one picture could not be told apart
const BASELINES = { global: "the rate of all", task: "the rate of the task", strategy: "the rate of the strategy", cell: "the rate of the strategy on the task" };

export async function trust(api) {
  const { parts, write } = await api.get("course");
  const byAgent = Map.groupBy(parts, (row) => row.agent);
  const place = (name, work, after) => worked(api, name, work, after);
  return [
    el("h1", {}, "Can it be trusted?"),
    el("h2", {}, "Success of agents, from their first episode to the latest"),
    byAgent.size ? curves(byAgent) : el("p", { class: "soft" }, "No episodes yet."),
    el("h2", {}, "Do the predictions hold?"),
    el("p", { class: "soft" }, "Each past episode is predicted from those before it."),
    place("Calibrate", "calibrate", calibration),
    el("h2", {}, "Do the numbers follow from the facts?"),
    place("Verify", "verify", verified),
    write ? [el("h2", {}, "Derive all numbers anew"),
      place("Rebuild", "rebuild", () => [el("p", {}, "Done: every number is derived from the facts.")])] : null,
  ].flat();
}

// A point is the rate of some episodes in a row; agents that are too many for one picture get a line each.
function curves(byAgent) {
  const points = (rows) => rows.map((row) => [row.at, row.successes / row.episodes]);
  const sum = (rows, name) => rows.reduce((all, row) => all + row[name], 0);
  const note = el("p", { class: "small soft" }, "Each point is the rate of at least 20 episodes in a row, where there are as many; they are in order of their times.");
  if (byAgent.size > inks.length) {
    const agents = [...byAgent].map(([name, rows]) => ({ name, rows, all: sum(rows, "episodes"), good: sum(rows, "successes") }))
      .sort((a, b) => b.good / b.all - a.good / a.all);
    return [table([
      ["agent", (row) => row.name, "text"],
      ["worked", (row) => `${count(row.good)} of ${count(row.all)}`, "number"],
      ["rate", (row) => percent(Math.round(100 * row.good / row.all) / 100), "number less"],
      ["first to latest", (row) => spark(points(row.rows), `${row.name}: its rate from first to latest`), "bar"],
    ], agents), note];
  }
  const lines = [...byAgent.values()].map((rows, index) => ({ kind: inks[index], points: points(rows), dots: rows.length < 20 }));
  return [
    plot(lines, { from: "first", to: "latest", said: "learning curves" }), note,
    el("p", { class: "legend" }, [...byAgent.keys()].map((name, index) =>
      el("span", {}, svg("svg", { width: 26, height: 8, "aria-hidden": "true" },
        svg("line", { class: `line ${inks[index]}`, x1: 0, x2: 22, y1: 4, y2: 4 })), " ", name))),
  ];
}

// Work goes on at the server while the page shows something else; who comes back sees how far it is.
function worked(api, name, work, after) {
  const out = el("div", { "aria-live": "polite" });
  const bar = el("progress", { "aria-label": `${name}: progress` });
  const said = el("span", { class: "small soft" });
  const stop = el("button", { hidden: true, onclick: () => tell(api.post("stop", { name: work })) }, "Stop");
  const start = el("button", { class: "first", onclick: () => tell(api.post(work)) }, name);
  const busy = el("p", { hidden: true }, bar, " ", said);
  const told = ({ state, done, total, answer, message }) => {
    const running = state === "running";
    start.disabled = running;
    stop.hidden = busy.hidden = !running;
    if (running) {
      if (total) { bar.max = total; bar.value = done; }
      said.textContent = total ? `${count(done)} of ${count(total)}` : "Working …";
      out.replaceChildren();
      setTimeout(() => { if (out.isConnected) tell(api.get("job", { name: work })); }, 400);
    } else if (state === "done") out.replaceChildren(...after(answer).flat().filter(Boolean));
    else if (state === "stopped") out.replaceChildren(el("p", {}, "It was stopped before its end."));
    else if (state === "failed") out.replaceChildren(failed(message));
  };
  const failed = (message) => el("div", { class: "card error", role: "alert" }, message);
  const tell = async (answer) => {
    try {
      told(await answer);
    } catch (error) {
      start.disabled = false;
      stop.hidden = busy.hidden = true;
      out.replaceChildren(failed(error.message));
    }
  };
  api.after(async () => told(await api.get("job", { name: work })), out);
  return [el("div", { class: "actions" }, start, stop), busy, out];
}

function calibration(told) {
  if (!told.episodes) return [el("p", {}, "There are no episodes to predict.")];
  const points = told.bins.filter((bin) => bin.count)
    .map((bin) => [bin.mean, bin.share, bin.lower, bin.upper]);
  return [
    el("p", {}, el("b", {}, told.verdict)),
    el("p", {}, `Over ${count(told.episodes)} episodes the Brier score is ${told.brier.toFixed(3)}`,
      told.auc === null ? "" : `, AUC ${told.auc.toFixed(3)}`, `, mean error ${told.ece.toFixed(3)}.`),
    el("p", { class: "small soft" }, "The lower the Brier score the better: 0 is perfect, and 50% each time gets 0.25. AUC is how often ",
      "a success was expected more than a failure: 0.5 is chance, 1 is perfect."),
    plot([{ points, band: true, dots: true }], {
      from: "predicted 0%", to: "100%", even: true, said: "predicted and real shares of successes",
    }),
    el("p", { class: "small soft" }, "On the dashed line predictions equal what happened."),
    table([
      ["predicted by", (row) => row.name],
      ["Brier score", (row) => row.brier?.toFixed(4) ?? "", "number"],
    ], [{ name: "this memory", brier: told.brier }, ...told.baselines.map((row) => ({ ...row, name: BASELINES[row.name] ?? row.name }))]),
  ];
}

function verified(told) {
  if (told.ok) {
    return [el("p", {}, el("b", { class: "good" }, "All numbers follow from the facts. "),
      el("span", { class: "soft" }, `Compared: ${told.said}.`))];
  }
  return [
    el("p", { class: "bad" }, `${count(told.count)} differences; graphmem upkeep rebuild derives all anew.`),
    table([
      ["kind", (row) => row.kind], ["key", (row) => short(row.key, 60)], ["field", (row) => row.field],
      ["stored", (row) => short(JSON.stringify(row.stored), 60)],
      ["expected", (row) => short(JSON.stringify(row.expected), 60)],
    ], told.differences),
  ];
}
