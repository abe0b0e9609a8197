// Numbers as words.py writes them.
const MINUS = "\u2212";

function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "\u2013";
  const size = Math.abs(value);
  let text;
  if (size >= 10 ** (digits - 1)) {
    text = size.toLocaleString("en-US", { maximumFractionDigits: 0 });
  } else if (size > 0 && size < 1e-4) {
    text = size.toExponential(digits - 1).replace("e-", `e${MINUS}`);
  } else {
    text = String(Number(size.toPrecision(digits)));
  }
  return (value < 0 ? MINUS : "") + text;
}

function percent(share) {
  return share > 0 && share < 0.001 ? "less than 0.1 %" : `${number(100 * share)} %`;
}

function change(before, after) {
  if (!(before > 0)) return "";
  const share = after / before - 1;
  return `${number(100 * Math.abs(share), 2)} % ${share >= 0 ? "more" : "less"}`;
}
