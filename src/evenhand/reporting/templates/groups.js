// Which groups the charts show: a few at a time, found by name where there are many.
const LOOKS = 6;
const AT_FIRST = 4;

// The curve that groups are compared with: that of their stratum where all chosen ones are of one, else of all rows.
function everybodyCurve({ facts, chosen }) {
  const curves = facts.before.shares.length;
  const strata = new Set(chosen.map((slot) => facts.groups[slot.group].stratum));
  return curves > facts.charted.length + 1 && strata.size === 1 ? facts.charted.length + [...strata][0] : curves - 1;
}

function swatch(look) {
  return svg("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" }, svg("line", { class: `swatch g${look}`, x1: 0, x2: 30, y1: 5, y2: 5 }));
}

function pickGroups(box, facts, state, changed) {
  const looks = Array(LOOKS).fill(null);
  const choices = html("div", { class: "choices" });
  const boxes = facts.charted.map((group, curve) => {
    const input = html("input", { type: "checkbox", value: String(curve) });
    const label = html("label", {}, input, html("span"), html("bdi", {}, facts.groups[group].name));
    choices.append(label);
    input.addEventListener("change", () => toggle(curve));
    return { input, label, name: facts.groups[group].name.toLowerCase() };
  });

  function toggle(curve) {
    const slot = looks.indexOf(curve);
    if (slot >= 0) looks[slot] = null;
    else if (looks.includes(null)) looks[looks.indexOf(null)] = curve;
    show();
    changed();
  }

  function show() {
    const full = !looks.includes(null);
    boxes.forEach(({ input, label }, curve) => {
      const look = looks.indexOf(curve);
      input.checked = look >= 0;
      input.disabled = full && look < 0;
      input.nextElementSibling.replaceWith(look >= 0 ? swatch(look) : html("span"));
      label.classList.toggle("chosen", look >= 0);
    });
    state.chosen = looks.flatMap((curve, look) => (curve === null ? [] : [{ curve, look, group: facts.charted[curve] }]));
  }

  const judged = facts.charted.map((group, curve) => [group, curve]).filter(([group]) => facts.groups[group].judged);
  const among = facts.groups[facts.charted[0]].stratum; // groups of other strata are not to be compared with these
  const pool = (facts.charted.length <= AT_FIRST ? facts.charted.map((group, curve) => [group, curve]) : judged)
    .filter(([group]) => facts.groups[group].stratum === among);
  const first = pool.slice(0, facts.charted.length <= AT_FIRST ? AT_FIRST : 3);
  first.forEach(([, curve], slot) => { looks[slot] = curve; });
  const many = facts.charted.length > 12;
  const tools = html("div", { class: "tools" });
  if (many) tools.append(finder(boxes));
  if (!facts.scale.bars) tools.append(...kinds(state, changed));
  const said = many ? `Groups to show, up to ${LOOKS}; the farthest before come first` : "Groups to show";
  box.append(html("fieldset", { class: "picker" }, html("legend", {}, said), choices, tools));
  box.hidden = false;
  show();
}

function finder(boxes) {
  const input = html("input", { type: "search", autocomplete: "off" });
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const { label, name, input: box } of boxes) label.hidden = !box.checked && !name.includes(wanted);
  });
  return html("label", {}, "Find ", input);
}

function kinds(state, changed) {
  return [["Spread", false], ["Cumulative", true]].map(([text, cumulative]) => {
    const input = html("input", { type: "radio", name: "kind" });
    input.checked = cumulative === state.cumulative;
    input.addEventListener("change", () => { state.cumulative = cumulative; changed(); });
    return html("label", {}, input, text);
  });
}
