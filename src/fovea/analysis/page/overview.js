// Small heat maps of every layer and head; each is a button that chooses it.
const MOST_THUMB_PIXELS = 160;

// The figures of the layer's head, or the mean of its heads: [zeros, entropy, null rows].
function figuresOf(attentions, layer, head) {
  const found = attentions.find(attention => attention.layer === layer);
  if (!found) return null;
  if (head > 0) return found.figures[head - 1];
  return [0, 1, 2].map(i => found.figures.reduce((sum, figures) => sum + figures[i], 0) / found.figures.length);
}

function figuresText([zeros, entropy, nulls]) {
  return `${percent(zeros)} exact zeros, entropy ${entropy.toFixed(2)} nats, ${percent(nulls)} null rows`;
}

function overviewOf({weights, sublayer, palette, scale, layer, head, width, onChoose}) {
  const attentions = weights.pass.attentions.filter(attention => attention.sublayer === sublayer);
  const heads = attentions.length ? attentions[0].heads : 0;
  const grid = element("div", {class: "overview", role: "group", "aria-label": "All layers and heads"});
  const size = Math.max(30, Math.min(72, Math.floor((width - 60) / (heads + 1)) - 8));
  grid.style.gridTemplateColumns = `max-content repeat(${heads + 1}, max-content)`;
  const name = (text, kind) => element("span", {class: `name ${kind}`}, text);
  grid.append(name("", "column"), name("mean", "column"));
  for (let h = 1; h <= heads; ++h) grid.append(name(h, "column"));
  const thumb = (l, h) => {
    const matrix = weights.matrix(sublayer, l, h);
    const figures = l > 0 ? figuresOf(attentions, l, h) : null;
    const text = `${layerText(l)}, ${headText(h)}${figures && h > 0 ? `: ${figuresText(figures)}` : ""}`;
    const isChosen = l === layer && h === head;
    const button = element("button", {type: "button", "aria-pressed": isChosen, "aria-label": text, title: text,
                                      tabindex: isChosen ? "0" : "-1", "data-place": `${l}-${h}`});
    const canvas = cellCanvas(matrix, palette, scale, MOST_THUMB_PIXELS);
    const ratio = size / Math.max(matrix.rows, matrix.columns);
    canvas.style.width = `${Math.max(12, Math.round(matrix.columns * ratio))}px`;
    canvas.style.height = `${Math.max(12, Math.round(matrix.rows * ratio))}px`;
    button.append(canvas);
    button.addEventListener("click", () => onChoose(l, h));
    return button;
  };
  const layers = attentions.map(attention => attention.layer);
  const places = layers.length > 1 ? [0, ...layers] : layers;
  for (const l of places) {
    grid.append(name(l === 0 ? "all" : `layer ${l}`, "row"), thumb(l, 0));
    for (let h = 1; h <= heads; ++h) grid.append(l === 0 ? name("", "column") : thumb(l, h));
  }
  if (!grid.querySelector('[tabindex="0"]')) grid.querySelector("button")?.setAttribute("tabindex", "0");
  grid.addEventListener("keydown", event => moveFocus(event, grid));
  return grid;
}

// Arrows move between the buttons of the grid.
function moveFocus(event, grid) {
  const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
  const place = event.target.getAttribute("data-place");
  if (!step || !place) return;
  event.preventDefault();
  const [layer, head] = place.split("-").map(Number);
  const at = (l, h) => grid.querySelector(`[data-place="${l}-${h}"]`);
  const next = at(layer + step[0], head + step[1]) || (layer + step[0] === 0 ? at(0, 0) : null);
  if (!next) return;
  event.target.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}
