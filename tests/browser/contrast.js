// Contrast of every text and drawing that is seen, as WCAG 2 computes it.
() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [red, green, blue] = rgb(colour).map((value) => linear(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (rgb(colour)[3] === 255) return colour;
    }
    return "white";
  };
  const found = [];
  const add = (kind, node, colour) => {
    const [high, low] = [light(colour), light(ground(node))].sort((one, two) => two - one);
    found.push([kind, node.outerHTML.slice(0, 80), (high + 0.05) / (low + 0.05)]);
  };
  for (const node of document.querySelectorAll("body *")) {
    if (!node.checkVisibility() || node.closest(":disabled")) continue;
    const style = getComputedStyle(node);
    const drawn = node.namespaceURI.endsWith("svg");
    const words = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (words) add("text", node, drawn ? style.fill : style.color);
    if (node.matches(".curve, .swatch, .line, .interval, .point")) add("drawing", node, style.stroke);
    if (node.matches(".dot, .after")) add("drawing", node, style.fill);
  }
  return found;
}
