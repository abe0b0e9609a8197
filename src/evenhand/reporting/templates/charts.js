// What is drawn: each function takes the box to draw into and the state of the page.
function drawFrontier(box, state, choose) {
  const { facts, place } = state;
  const stages = facts.tolerances;
  const shown = [...stages, facts.before];
  const gaps = shown.map((stage) => stage.largest_gap);
  const risks = shown.map((stage) => stage.risk);
  const now = stages[place];
  const { root, toX, toY, frame } = panel(box, {
    x: widen([Math.min(0, ...gaps), Math.max(...gaps)]),
    y: widen([Math.min(...risks), Math.max(...risks)], 0.14),
    xName: `Largest ${state.gapName} to everybody \u2192`,
    yName: `\u2191 ${state.errorName}`,
    height: 300,
    label: `${state.errorName} against the largest gap, for ${stages.length} tolerances. At tolerance `
      + `${number(now.epsilon)} the gap is ${number(now.largest_gap)} and the error ${number(now.risk)}.`,
  });
  // The model itself was fitted on other rows than the rest: a point beside the line.
  const path = stages.filter((stage) => !stage.fitted).map((stage) => `${toX(stage.largest_gap)},${toY(stage.risk)}`).join(" ");
  root.append(svg("polyline", { class: "line", points: path }));
  const [bx, by] = [toX(facts.before.largest_gap), toY(facts.before.risk)];
  root.append(svg("path", { class: "base", d: `M${bx} ${by - 7}l7 7l-7 7l-7-7z` }));
  note(root, frame, bx, by + 21, "before", "");
  stages.forEach((stage, at) => {
    const kind = at === place ? " here" : stage.fitted ? " ours" : "";
    const mark = svg("circle", {
      class: `point${kind}`, cx: toX(stage.largest_gap), cy: toY(stage.risk), r: at === place ? 7 : 5,
    });
    mark.append(svg("title", {}, `Tolerance ${number(stage.epsilon)}`));
    mark.addEventListener("click", () => choose(at));
    root.append(mark);
  });
  const mine = stages[facts.own];
  if (place !== facts.own) note(root, frame, toX(mine.largest_gap), toY(mine.risk) - 12, "this model", "");
  const text = place === facts.own ? "this model" : `tolerance ${number(now.epsilon)}`;
  note(root, frame, toX(now.largest_gap), toY(now.risk) - 14, text, "strong");
}

// The same parity with the group and without it, between no parity and one number for everybody.
function drawModes(box, state) {
  const modes = state.facts.modes.found;
  const gaps = modes.map((mode) => mode.largest_gap);
  const risks = modes.map((mode) => mode.risk);
  const { root, toX, toY, frame } = panel(box, {
    x: widen([0, Math.max(...gaps)]),
    y: widen([Math.min(...risks), Math.max(...risks)], 0.16),
    xName: `Largest ${state.gapName} to everybody \u2192`,
    yName: `\u2191 ${state.errorName}`,
    height: 240,
    label: modes.map((mode) => `${mode.name}: gap ${number(mode.largest_gap)}, error ${number(mode.risk)}`).join(". "),
  });
  modes.forEach((mode) => {
    const [x, y] = [toX(mode.largest_gap), toY(mode.risk)];
    root.append(svg("circle", { class: `point still${mode.ours ? " ours" : ""}`, cx: x, cy: y, r: mode.ours ? 7 : 5 }));
  });
  placeNames(root, frame, modes.map((mode) => ({
    x: toX(mode.largest_gap), y: toY(mode.risk), text: mode.name.toLowerCase(), kind: mode.ours ? "strong" : "",
  })));
}

// Names of points, each above or below its own, wherever no other name and no point is.
function placeNames(root, frame, points) {
  const taken = points.map(({ x, y }) => ({ left: x - 8, right: x + 8, top: y - 8, bottom: y + 8 }));
  for (const { x, y, text, kind } of points) {
    const wide = 7 * text.length;
    const left = Math.min(Math.max(x - wide / 2, frame.left + 2), frame.right - wide);
    const boxes = [-26, 10, -44, 28].map((shift) => ({ left, right: left + wide, top: y + shift, bottom: y + shift + 16 }));
    const clear = ({ left, right, top, bottom }) => !taken.some(
      (other) => left < other.right && other.left < right && top < other.bottom && other.top < bottom,
    );
    const spot = boxes.find(clear) ?? boxes[0];
    taken.push(spot);
    root.append(svg("text", { class: `halo ${kind}`, x: (spot.left + spot.right) / 2, y: spot.top + 12, "text-anchor": "middle" }, text));
  }
}

// Text beside a point, kept inside the frame.
function note(root, frame, x, y, text, kind) {
  const anchor = x > (frame.left + frame.right) / 2 ? "end" : "start";
  root.append(svg("text", { class: `halo ${kind}`, x: x + (anchor === "end" ? 4 : -4), y, "text-anchor": anchor }, text));
}

function drawDistribution(box, state, stage, name, top) {
  const { facts, chosen, cumulative } = state;
  const everybody = stage.shares[everybodyCurve(state)];
  const curves = chosen.map((slot) => [slot.look, stage.shares[slot.curve]]);
  const said = `${name}: ${cumulative ? "cumulative " : ""}shares of predictions by group. The numbers are in the table below.`;
  if (facts.scale.bars) drawBars(box, facts.scale, everybody, curves, said, top);
  else if (cumulative) drawSteps(box, facts.scale, everybody, curves, said);
  else drawDensities(box, facts.scale, everybody, curves, said, top);
}

const height = 262;

function drawDensities(box, scale, everybody, curves, label, top) {
  const { root, toX, toY, frame } = panel(box, {
    x: [scale.edges[0], scale.edges.at(-1)], y: [0, top * 1.05], xName: "Prediction \u2192", height, label,
    yName: "\u2191 Share of predictions, %",
  });
  const line = (shares) => shares.map((share, bin) => `${toX(scale.centres[bin])},${toY(share / 1e4)}`).join(" ");
  const [first, last] = [toX(scale.centres[0]), toX(scale.centres.at(-1))];
  root.append(svg("polygon", { class: "everybody", points: `${first},${frame.bottom} ${line(everybody)} ${last},${frame.bottom}` }));
  for (const [look, shares] of curves) root.append(svg("polyline", { class: `curve g${look}`, points: line(shares) }));
}

function drawSteps(box, scale, everybody, curves, label) {
  const { root, toX, toY, frame } = panel(box, {
    x: [scale.edges[0], scale.edges.at(-1)], y: [0, 100], xName: "Prediction \u2192", height, label,
    yName: "\u2191 Share of predictions up to it, %",
  });
  const line = (shares) => {
    let sum = 0;
    return scale.edges.map((edge, at) => `${toX(edge)},${toY((sum += at ? shares[at - 1] / 1e4 : 0))}`).join(" ");
  };
  root.append(svg("polygon", { class: "everybody", points: `${line(everybody)} ${frame.right},${frame.bottom}` }));
  for (const [look, shares] of curves) root.append(svg("polyline", { class: `curve g${look}`, points: line(shares) }));
}

function drawBars(box, scale, everybody, curves, label, top) {
  const count = scale.names.length;
  const every = Math.ceil((count * 46) / Math.max(box.clientWidth, 150));
  const { root, toX, toY, frame } = panel(box, {
    x: [-0.6, count - 0.4], y: [0, top * 1.05], xName: "Prediction \u2192", height, label,
    yName: "\u2191 Share of predictions, %",
    xTicks: scale.names.map((text, at) => [at, text]).filter(([at]) => at % every === 0),
  });
  const column = (kind, from, to, share) => root.append(svg("rect", {
    class: kind, x: toX(from), width: Math.max(1, toX(to) - toX(from)), y: toY(share / 1e4), height: frame.bottom - toY(share / 1e4),
  }));
  const each = 0.76 / Math.max(1, curves.length);
  for (let at = 0; at < count; at += 1) {
    column("everybody", at - 0.46, at + 0.46, everybody[at]);
    curves.forEach(([look, shares], slot) => column(`bar g${look}`, at - 0.38 + slot * each, at - 0.38 + (slot + 0.86) * each, shares[at]));
  }
}

// One line for each group: the interval, what was seen, the tolerance.
function drawBounds(box, numbers, most) {
  const order = numbers.upper.map((_, place) => place).sort((a, b) => numbers.counts[b] - numbers.counts[a]).slice(0, most);
  const left = Math.min(190, box.clientWidth * 0.36);
  const high = Math.max(...order.map((place) => numbers.upper[place]), ...(numbers.epsilon ?? [0]));
  const { root, toX, frame } = panel(box, {
    x: [0, high * 1.04], y: [0, 1], height: 40 + 26 * order.length, left,
    label: `Bounds on the gap of ${order.length} groups. The numbers are in the table below.`,
  });
  for (const old of root.querySelectorAll(".grid, text[text-anchor='end']")) old.remove();
  order.forEach((place, row) => {
    const y = frame.top + 12 + 26 * row;
    const [low, seen, up] = ["lower", "estimate", "upper"].map((name) => toX(numbers[name][place]));
    root.append(svg("line", { class: "interval", x1: low, x2: Math.max(up, low + 1), y1: y, y2: y }));
    if (numbers.counts[place]) root.append(svg("circle", { class: "dot", cx: seen, cy: y, r: 5.5 }));
    if (numbers.epsilon) {
      const at = toX(numbers.epsilon[place]);
      root.append(svg("line", { class: "tolerance", x1: at, x2: at, y1: y - 13, y2: y + 13 }));
    }
    root.append(svg("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, shorten(numbers.groups[place], left / 7 - 2)));
  });
}

function shorten(text, most) {
  const marks = [...text];
  return marks.length <= most ? text : `${marks.slice(0, Math.max(1, most - 1)).join("")}\u2026`;
}

function drawCalibration(box, numbers, group) {
  const rows = numbers.curves.count[group].map((count, bin) => ({
    count, ...Object.fromEntries(["proba", "share", "low", "high"].map((name) => [name, numbers.curves[name][group][bin]])),
  })).filter((row) => row.count > 0).sort((a, b) => a.proba - b.proba);
  const all = rows.flatMap((row) => [row.proba, row.share, row.low, row.high]);
  const range = widen([Math.max(0, Math.min(...all)), Math.max(...all, 0.02)]);
  const { root, toX, toY } = panel(box, {
    x: range, y: range, height: Math.max(150, box.clientWidth * 0.86),
    label: `Share against probability of ${numbers.groups[group]}, ${rows.length} bins. The numbers are in the table below.`,
  });
  const upper = rows.map((row) => `${toX(row.proba)},${toY(row.high)}`);
  const lower = rows.map((row) => `${toX(row.proba)},${toY(row.low)}`).reverse();
  root.append(svg("polygon", { class: "band", points: [...upper, ...lower].join(" ") }));
  root.append(svg("line", { class: "diagonal", x1: toX(range[0]), y1: toY(range[0]), x2: toX(range[1]), y2: toY(range[1]) }));
  for (const row of rows) {
    const out = row.share < row.low - 1e-12 || row.share > row.high + 1e-12;
    root.append(svg("circle", { class: out ? "dot out" : "dot", cx: toX(row.proba), cy: toY(row.share), r: out ? 5 : 4 }));
  }
}

// Ring before, dot after, line at the tolerance: one small picture for a row of the table.
function drawMove(cell, before, after, epsilon, top) {
  const x = linear([0, top], [7, 133]);
  const root = svg("svg", { viewBox: "0 0 140 22", focusable: "false" });
  root.append(svg("line", { class: "link", x1: x(before), x2: x(after), y1: 11, y2: 11 }));
  if (epsilon !== null) root.append(svg("line", { class: "tolerance", x1: x(epsilon), x2: x(epsilon), y1: 1, y2: 21 }));
  root.append(svg("circle", { class: "ring", cx: x(before), cy: 11, r: 4.5 }), svg("circle", { class: "after", cx: x(after), cy: 11, r: 5 }));
  cell.replaceChildren(root);
}
