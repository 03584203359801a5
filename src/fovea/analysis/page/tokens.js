// Elements and texts. No text becomes markup: all of it passes through textContent and setAttribute.
function element(name, attributes = {}, ...children) {
  const out = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
  out.append(...children);
  return out;
}

function svgElement(name, attributes = {}, ...children) {
  const out = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
  out.append(...children);
  return out;
}

// Control characters, which XML and canvases do not draw, as signs; other characters that would not show, or that turn
// the direction of the text around them, as U+FFFD.
function visible(token) {
  if (/^ +$/.test(token)) return "\u2423".repeat(token.length);
  return token.replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5")
      .replace(/[\u0000-\u001f\u007f]/g, c => `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`)
      .replace(/[\u0080-\u009f\u202a-\u202e\u2066-\u2069\ufffe\uffff]/g, "\ufffd") || "(empty)";
}

const measuring = document.createElement("canvas").getContext("2d");
const FONT = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';

function textWidth(text, size) {
  measuring.font = `${size}px ${FONT}`;
  return measuring.measureText(text).width;
}

// The token with an ellipsis in place of what is wider than `width` pixels.
function shortened(token, width, size) {
  const text = visible(token);
  if (textWidth(text, size) <= width) return text;
  const characters = Array.from(text);
  while (characters.length > 1 && textWidth(characters.join("") + "…", size) > width) characters.pop();
  return characters.join("") + "…";
}

// A label of a column that is one letter stands upright; on its side, one letter looks like another. The mark of a
// word's beginning, U+2581, is left out there.
function uprightLabel(token) { return visible(token).replace(/^\u2581(?=.)/u, ""); }
function standsUpright(token) { return Array.from(uprightLabel(token)).length <= 1; }

// The labels of an attention's rows and columns, and the names of the two axes.
function labelsOf(pass, sublayer, rows) {
  const source = sourceLabels(pass), within = {rowAxis: "queries", columnAxis: "keys"};
  if (sublayer === ENCODER) return {rows: source, columns: source, ...within};
  if (sublayer === DECODER) return {rows: pass.inputs, columns: pass.inputs, ...within};
  return {rows: rows === "inputs" ? pass.inputs : pass.outputs, columns: source, rowAxis: "target", columnAxis: "source"};
}

function percent(share) { return `${(100 * share).toFixed(1)}%`; }

function weightText(weight) {
  if (Number.isNaN(weight)) return "later key";
  return weight === 0 ? "exactly 0" : weight.toPrecision(2);
}

function layerText(layer) { return layer === 0 ? "mean of all layers" : `layer ${layer}`; }
function headText(head) { return head === 0 ? "mean of heads" : `head ${head}`; }
