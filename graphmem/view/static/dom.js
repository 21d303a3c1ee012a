// Elements from data. Texts become text nodes and nothing else, so that no memory can bring markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const el = (name, attributes, ...children) =>
  filled(document.createElement(name), attributes, children);

export const svg = (name, attributes, ...children) =>
  filled(document.createElementNS(SVG, name), attributes, children);

/** A share in percent: 100% and 0% mean exactly that, else there are up to three decimals. */
export const percent = (share) => {
  if (share === null) return "–";
  for (const places of [0, 1, 2, 3]) {
    const shown = (share * 100).toFixed(places);
    if ((Number(shown) !== 100 || share >= 1) && (Number(shown) !== 0 || share <= 0)) return `${shown}%`;
  }
  return share > 0.5 ? ">99.999%" : "<0.001%";
};

export const count = (number) => Number(number ?? 0).toLocaleString("en");

export const day = (text) => (text ? text.slice(0, 10) : "no date");

export const short = (text, most = 120) => {
  const letters = [...String(text ?? "")];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : letters.join("");
};

/** The heading of a page about one thing; a long text is no headline. */
export const heading = (text) => el("h1", { class: text.length > 120 ? "long" : null }, text);

export const itemLink = (id, text) => el("a", { href: `#/item/${encodeURIComponent(id)}` }, text);

export const nearLink = (id, text) => el("a", { href: `#/near/${encodeURIComponent(id)}` }, text);

export const showLink = (id, text) => el("a", { href: `#/show/${encodeURIComponent(id)}` }, text);

export const worked = (row) => `${count(row.successes)} of ${count(row.trials)}`;

export const bounds = (row) => (row.trials ? bar(row.lower, row.upper, row.mean) : el("span", { class: "small soft" }, "no trials"));

/** The column of dates, if a row has one. */
export const dates = (rows, name) => (rows.some((row) => row[name]) ? [["date", (row) => day(row[name]), "less short"]] : []);

/** What did better, if that is known. */
export const better = (one) => one && el("p", {}, el("span", { class: "good" }, "better: "), itemLink(one.id, one.strategy),
  ` (${worked(one)} on the same ${one.ground})`);

export const kinds = { established: "good", refuted: "bad" };

export const tag = (text, kind = "") => el("span", { class: `tag ${kind}` }, text);

const FIRST = 25;

// columns: [title, cell of a row, class]; a cell is a text, an element, or a list of them
// Stacked: on a phone the cells of a row lie below each other.
export function table(columns, rows, nothing = "Nothing yet.", { stacked = false } = {}) {
  if (!rows.length) return el("p", { class: "soft" }, nothing);
  const head = columns.map(([title, , kind]) => el("th", { class: kind, scope: "col" }, title));
  const body = rows.map((row) =>
    el("tr", {}, columns.map(([title, cell, kind]) => el("td", { class: kind, "data-title": title }, cell(row)))));
  const told = el("tbody", {}, body.slice(0, FIRST));
  const all = body.length > FIRST && el("button", { class: "small", onclick: () => {
    told.append(...body.slice(FIRST));
    all.remove();
    body[FIRST].querySelector("a, button")?.focus();
  } }, `Show all ${count(body.length)}`);
  return el("div", { class: "wide" },
    el("table", { class: stacked ? "stacked" : null }, el("thead", {}, el("tr", {}, head)), told), all);
}

// Bounds of a rate between 0 and 1, and its mean.
export function bar(lower, upper, mean) {
  const kind = lower > 0.6 ? "good" : upper < 0.4 ? "bad" : "";
  const said = `between ${percent(lower)} and ${percent(upper)}`;
  return svg("svg", { viewBox: "0 0 120 14", class: "plot rate", role: "img", "aria-label": said },
    svg("title", {}, said),
    svg("rect", { class: "track", x: 0, y: 6, width: 120, height: 2, rx: 1 }),
    svg("rect", {
      class: `range ${kind}`, x: 120 * lower, y: 3, width: Math.max(2, 120 * (upper - lower)), height: 8, rx: 2,
    }),
    mean === null || mean === undefined ? null
      : svg("rect", { class: "mean", x: 120 * mean - 1, y: 1, width: 2, height: 12 }));
}

// Lines of shares: lines are [{points: [[x, y, lower, upper]], kind, name}], x from 0 to 1; marks are places on x.
export function plot(lines, { from = "", to = "", even = false, said = "", labels = null, marks = [] } = {}) {
  const [width, height, left, top, bottom] = [640, 240, 48, 10, 26];
  const x = (value) => left + value * (width - left - 10);
  const y = (value) => top + (1 - value) * (height - top - bottom);
  const grid = (labels ?? [0, 0.25, 0.5, 0.75, 1].map((share) => [share, percent(share)])).map(([share, label]) => [
    svg("line", { class: "grid", x1: left, x2: width - 10, y1: y(share), y2: y(share) }),
    svg("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, label),
  ]);
  const drawn = lines.map(({ points, kind = "", band = false, dots = false }) => {
    const path = points.map(([at, share]) => `${x(at).toFixed(1)},${y(share).toFixed(1)}`);
    const round = [
      ...points.map(([at, , , upper]) => `${x(at).toFixed(1)},${y(upper ?? 0).toFixed(1)}`),
      ...points.toReversed().map(([at, , lower]) => `${x(at).toFixed(1)},${y(lower ?? 0).toFixed(1)}`),
    ];
    return [
      band ? svg("polygon", { class: "band", points: round.join(" ") }) : null,
      svg("polyline", { class: `line ${kind}`, points: path.join(" ") }),
      dots || points.length === 1
        ? points.map(([at, share]) => svg("circle", { class: `dot ${kind}`, cx: x(at), cy: y(share), r: 3 })) : null,
    ];
  });
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "img", "aria-label": said },
    grid,
    even ? svg("line", { class: "even", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }) : null,
    marks.map((at) => svg("line", { class: "mark", x1: x(at), x2: x(at), y1: y(0), y2: y(1) })),
    drawn,
    svg("text", { x: left, y: height - 6 }, from),
    svg("text", { x: width - 10, y: height - 6, "text-anchor": "end" }, to));
}

// A line of shares in a row of a table.
export function spark(points, said) {
  const at = points.map(([x, share]) => `${(2 + 156 * x).toFixed(1)},${(2 + 26 * (1 - share)).toFixed(1)}`);
  const [[x, y]] = at.map((one) => one.split(","));
  return svg("svg", { viewBox: "0 0 160 30", class: "plot", role: "img", "aria-label": said },
    svg("title", {}, said),
    [2, 15, 28].map((height) => svg("line", { class: "grid", x1: 0, x2: 160, y1: height, y2: height })),
    svg("polyline", { class: "line", points: at.join(" ") }),
    points.length === 1 ? svg("circle", { class: "dot", cx: x, cy: y, r: 3 }) : null);
}
