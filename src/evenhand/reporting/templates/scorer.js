// The parity step itself, for a score and group probabilities that the reader types.
const step = JSON.parse($("scorer-step").textContent);

// Logits are in units of log 2. Without parity there is no imbalance, and nothing is tilted.
function predict(scores, shares, parity) {
  const imbalance = step.kept.map((group) => (parity ? 1 - shares[group] / step.prior[group] : 0));
  const [low, high] = step.bounds;
  const clipped = Math.min(Math.max(scores[0], low ?? -Infinity), high ?? Infinity);
  const design = [...imbalance, ...(step.classes ? scores.slice(1) : [(clipped - step.centre) / step.half_width])];
  const logits = step.offset.map((start, atom) => design.reduce((sum, value, at) => sum + value * step.loadings[atom][at], start));
  const peak = Math.max(...logits);
  const weights = logits.map((logit) => 2 ** (logit - peak));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

const meanOf = (pmf) => pmf.reduce((sum, share, atom) => sum + share * step.atoms[atom], 0);

function quantileOf(pmf, level) {
  let sum = 0;
  return step.atoms[Math.max(0, pmf.findIndex((share) => (sum += share) >= level))];
}

// Numbers of some fields, or null where one of them is none, or beyond what sums and squares can be taken of.
function typed(name, least, most) {
  const fields = [...document.querySelectorAll(`#scorer [data-${name}]`)];
  const values = fields.map((field) => (field.value.trim() === "" ? NaN : Number(field.value)));
  fields.forEach((field, at) => field.setAttribute("aria-invalid", !(values[at] >= least && values[at] <= most)));
  return fields.some((field) => field.getAttribute("aria-invalid") === "true") ? null : values;
}

// Probabilities that add up to one, and a sentence where they did not.
function asShares(values, name) {
  const sum = values.reduce((total, value) => total + value, 0);
  const off = Math.abs(sum - 1) > 5e-4;
  return [values.map((value) => value / sum), off ? ` The ${name} probabilities add up to ${number(sum)}: they were scaled to one.` : ""];
}

function tellScorer(before, after) {
  if (step.classes) {
    const named = (pmf) => pmf.map((share, atom) => `\u2068${shorten(step.classes[atom], 30)}\u2069: ${percent(share)}`).join(", ");
    return `Without parity ${named(before)}. Predicted ${named(after)}.`;
  }
  const [low, high] = [0.05, 0.95].map((level) => number(quantileOf(after, level), 4));
  return `Without parity ${number(meanOf(before), 4)} on average. Predicted ${number(meanOf(after), 4)} on average, `
    + `${low === high ? low : `${low} to ${high}`} nine times in ten.`;
}

function drawScorer(before, after, score) {
  const { atoms, classes } = step;
  const gap = Math.min(...atoms.slice(1).map((atom, at) => atom - atoms[at]));
  const { root, toX, toY, frame } = panel($("scorer-chart"), {
    x: [atoms[0] - 0.6 * gap, atoms.at(-1) + 0.6 * gap], y: [0, 105 * Math.max(...before, ...after)], height: 240,
    xName: `${classes ? "Decision" : "Prediction"} \u2192`, yName: "\u2191 Probability, %",
    label: "Probability of each prediction. The numbers are in the table below.",
    xTicks: classes && classes.map((text, at) => [atoms[at], shorten(text, 16)]),
  });
  const column = (kind, from, to, share) => root.append(svg("rect", {
    class: kind, x: toX(from), width: Math.max(1.5, toX(to) - toX(from)), y: toY(100 * share), height: frame.bottom - toY(100 * share),
  }));
  atoms.forEach((atom, at) => {
    column("everybody", atom - 0.46 * gap, atom + (classes ? 0 : 0.46 * gap), before[at]);
    column("bar g0", atom - (classes ? 0 : 0.46 * gap), atom + 0.46 * gap, after[at]);
  });
  if (!classes && score >= atoms[0] && score <= atoms.at(-1)) {
    root.append(svg("line", { class: "tolerance", x1: toX(score), x2: toX(score), y1: frame.top, y2: frame.bottom }));
  }
}

function showScorer() {
  let [scores, shares] = [step.classes ? typed("score", 0, 1e6) : typed("score", -1e100, 1e100), typed("group", 0, 1e6)];
  const empty = (values) => values.reduce((sum, value) => sum + value, 0) <= 0;
  if (!scores || !shares || empty(shares) || (step.classes && empty(scores))) {
    $("scorer-now").textContent = "Type a number in every field, and none that is huge; probabilities are not negative, and not all zero.";
    $("scorer-chart").replaceChildren();
    $("scorer-table").tBodies[0].replaceChildren();
    return;
  }
  let notes = "";
  [shares, notes] = asShares(shares, "group");
  if (step.classes) {
    const [scaled, note] = asShares(scores, "class");
    [scores, notes] = [scaled, notes + note];
  }
  const [before, after] = [predict(scores, shares, false), predict(scores, shares, true)];
  $("scorer-now").textContent = tellScorer(before, after) + notes;
  drawScorer(before, after, scores[0]);
  $("scorer-table").tBodies[0].replaceChildren(...step.atoms.map((atom, at) => html("tr", {},
    html("th", { scope: "row" }, html("bdi", {}, step.classes ? step.classes[at] : number(atom, 4))),
    ...[before, after].map((pmf) => html("td", { "data-value": pmf[at] }, percent(pmf[at]))))));
}

$("scorer").hidden = false;
$("scorer").addEventListener("input", showScorer);
addEventListener("resize", showScorer);
showScorer();
