// The state of the page is the place of the slider and the groups that are shown; all else follows from it.
const facts = JSON.parse(document.getElementById("facts").textContent);
const $ = (id) => document.getElementById(id);
const state = {
  facts,
  place: facts.own,
  chosen: [],
  cumulative: false,
  gapName: facts.asked.gap,
  errorName: facts.asked.error,
};
const most = Number(document.body.dataset.panels); // groups in the chart of bounds, and panels of calibration

function sentence(stage) {
  const name = shorten(facts.groups[stage.farthest].name, 40);
  const cost = facts.asked.has_target && change(facts.before.risk, stage.risk);
  const early = stage.converged ? "" : " The solver stopped early here: read it with care.";
  return `Farthest group: \u201c\u2068${name}\u2069\u201d, ${state.gapName} ${number(stage.largest_gap)} (before ${number(facts.before.largest_gap)}). `
    + `${state.errorName} ${number(stage.risk)}${cost ? `, ${cost} than before` : ""}.${early}`;
}

function showNumbers() {
  const stage = facts.tolerances[state.place];
  const said = sentence(stage);
  $("epsilon").textContent = number(stage.epsilon);
  for (const node of document.querySelectorAll(".epsilon")) node.textContent = number(stage.epsilon);
  $("whose").hidden = !stage.fitted;
  $("own").disabled = stage.fitted;
  $("now").textContent = said;
  $("slider").value = state.place;
  $("slider").setAttribute("aria-valuetext", `Tolerance ${number(stage.epsilon)}. ${said}`);
  $("path-table").querySelectorAll("tbody tr").forEach((row, at) => row.toggleAttribute("aria-current", at === state.place));
}

const top = Math.max(...facts.before.gap, ...facts.tolerances.flatMap((stage) => stage.gap));

function showGroups() {
  const stage = facts.tolerances[state.place];
  for (const row of $("group-table").querySelectorAll("tbody tr")) {
    const group = Number(row.dataset.group);
    for (const cell of row.querySelectorAll("[data-of]:not([data-of=change])")) {
      const name = cell.dataset.of;
      cell.textContent = number(stage[name][group]);
      cell.dataset.value = stage[name][group];
    }
    row.querySelector('[data-of="change"]').textContent = change(facts.before.group_risk[group], stage.group_risk[group]);
    const epsilon = stage.fitted ? facts.groups[group].epsilon : scaled(stage.epsilon, group);
    drawMove(row.querySelector(".picture"), facts.before.gap[group], stage.gap[group], epsilon, Math.max(top, epsilon ?? 0));
  }
}

// Tolerances of the groups keep their proportions.
function scaled(epsilon, group) {
  const own = facts.groups[group].epsilon;
  const largest = Math.max(...facts.asked.epsilon);
  return own === null ? null : largest > 0 ? (epsilon * own) / largest : epsilon;
}

function showDistributions() {
  const stages = [facts.before, facts.tolerances[state.place]];
  const shown = [...state.chosen.map((slot) => slot.curve), everybodyCurve(state)];
  // One height for both, so that they can be compared.
  const tall = Math.max(...stages.flatMap((stage) => shown.flatMap((curve) => stage.shares[curve]))) / 1e4;
  drawDistribution($("before"), state, stages[0], "Before", tall);
  drawDistribution($("after"), state, stages[1], "After", tall);
  showShares(stages);
}

function showShares([before, after]) {
  const names = [...state.chosen.map((slot) => facts.groups[slot.group].name), "everybody"];
  const curves = [...state.chosen.map((slot) => slot.curve), everybodyCurve(state)];
  const head = html("tr", {}, html("th", { scope: "col" }, "Prediction (shares in %)"));
  for (const stage of ["before", "after"]) {
    for (const name of names) head.append(html("th", { scope: "col" }, html("bdi", {}, name), `, ${stage}`));
  }
  const body = html("tbody");
  facts.scale.centres.forEach((centre, bin) => {
    const text = facts.scale.bars ? facts.scale.names[bin] : `${number(facts.scale.edges[bin], 4)} to ${number(facts.scale.edges[bin + 1], 4)}`;
    const row = html("tr", {}, html("th", { scope: "row" }, text));
    for (const stage of [before, after]) {
      for (const curve of curves) row.append(html("td", {}, (stage.shares[curve][bin] / 1e4).toFixed(2)));
    }
    body.append(row);
  });
  $("shares-table").replaceChildren(html("thead", {}, head), body);
}

function choose(place) {
  state.place = Math.min(Math.max(place, 0), facts.tolerances.length - 1);
  draw();
}

function draw() {
  showNumbers();
  drawFrontier($("frontier"), state, choose);
  showDistributions();
  showGroups();
}

function drawRest() {
  if ($("modes-chart")) drawModes($("modes-chart"), state);
  if ($("bounds")) drawBounds($("bounds"), facts.held_out.numbers, most);
  const box = $("curves");
  if (!box) return;
  const numbers = facts.calibration.numbers;
  const order = numbers.groups.map((_, group) => group)
    .sort((a, b) => numbers.parity_cost[b] - numbers.parity_cost[a]).slice(0, most).sort((a, b) => a - b);
  box.replaceChildren(...order.map((group) => html("div", {}, html("p", { class: "name" }, html("bdi", {}, numbers.groups[group])), html("div"))));
  order.forEach((group, at) => drawCalibration(box.children[at].lastChild, numbers, group));
}

function startTheme() {
  const button = $("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
  button.addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; show(); });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
}

function startFilter() {
  const input = $("find-row");
  if (!input) return;
  input.closest("p").hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const row of $("group-table").querySelectorAll("tbody tr")) {
      row.hidden = !row.querySelector("th").textContent.toLowerCase().includes(wanted);
    }
  });
}

// Paper has no closed boxes: open them for the printer, and close them again.
function startPrinting() {
  const closed = () => document.querySelectorAll("details:not([open])");
  let opened = [];
  addEventListener("beforeprint", () => { opened = [...closed()]; opened.forEach((box) => { box.open = true; }); });
  addEventListener("afterprint", () => { opened.forEach((box) => { box.open = false; }); });
}

function start() {
  pickGroups($("picker"), facts, state, showDistributions);
  $("slider").addEventListener("input", (event) => choose(Number(event.target.value)));
  $("own").addEventListener("click", () => { choose(facts.own); $("slider").focus(); });
  $("control").hidden = facts.tolerances.length < 2;
  startTheme();
  startFilter();
  startPrinting();
  draw();
  drawRest();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone's address bar comes and goes
    width = innerWidth;
    draw();
    drawRest();
  });
}

start();
