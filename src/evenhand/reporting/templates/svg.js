// Elements, scales and axes. Text goes in as text nodes only, so that no name can become markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

function linear([low, high], [start, stop]) {
  const step = high === low ? 0 : (stop - start) / (high - low);
  return (value) => start + (value - low) * step;
}

// Round numbers that cover a range, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.7);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

function widen([low, high], share = 0.06) {
  const margin = (high - low || Math.abs(high) || 1) * share;
  return [low - margin, high + margin];
}

// A panel with grid and axes; the caller draws into what it returns.
function panel(box, { x, y, xName = "", yName = "", height = 260, label, xTicks = null, left = 30 }) {
  const width = Math.max(box.clientWidth, 150);
  const marks = ticks(...y, height / 55).map((value) => [value, number(value)]);
  left = Math.max(left, 16 + 7 * Math.max(0, ...marks.map(([, text]) => text.length)));
  const frame = { left, right: width - 12, top: yName ? 26 : 14, bottom: height - (xName ? 44 : 26) };
  const toX = linear(x, [frame.left, frame.right]);
  const toY = linear(y, [frame.bottom, frame.top]);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const [value, text] of marks) {
    root.append(svg("line", { class: "grid", x1: frame.left, x2: frame.right, y1: toY(value), y2: toY(value) }));
    root.append(svg("text", { x: frame.left - 8, y: toY(value) + 4, "text-anchor": "end" }, text));
  }
  root.append(svg("line", { class: "axis", x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom }));
  for (const [value, text] of xTicks ?? ticks(...x, width / 95).map((value) => [value, number(value)])) {
    root.append(svg("text", { x: toX(value), y: frame.bottom + 17, "text-anchor": "middle" }, text));
  }
  if (xName) root.append(svg("text", { x: frame.right, y: height - 6, "text-anchor": "end" }, xName));
  if (yName) root.append(svg("text", { x: 0, y: 8 }, yName));
  box.replaceChildren(root);
  return { root, toX, toY, frame, width };
}
