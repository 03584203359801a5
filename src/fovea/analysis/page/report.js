// The contents of the page, its controls, and the address that keeps them.
const byId = id => document.getElementById(id);
const present = [CROSS, DECODER, ENCODER].filter(sublayer =>
    report.models.some(model => model.statistics.some(place => place.sublayer === sublayer)));
const state = {sentence: 0, sublayer: present[0], layer: 0, head: 0, rows: "outputs", scale: "one", threshold: 15,
               cell: 0, theme: null, row: 0, column: 0};
const cards = report.models.map(model => new Card(model));

function most(sublayer, of) {
  return Math.max(0, ...report.models.flatMap(model =>
      model.statistics.filter(place => place.sublayer === sublayer).map(of)));
}

// The head of the first model that tells keys apart best: the greatest mutual information of queries and keys. A page
// opens with it, for the mean of many sparse heads is dense.
function sharpestHead(sublayer) {
  let best = {layer: most(sublayer, place => place.layer), head: 0}, information = 0;
  for (const place of report.models[0].statistics.filter(entry => entry.sublayer === sublayer)) {
    place.heads.forEach((figures, h) => {
      if (figures[3] > information) [best, information] = [{layer: place.layer, head: h + 1}, figures[3]];
    });
  }
  return best;
}

function isDark() {
  return state.theme ? state.theme === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

// One model's part of the page.
function Card(model) {
  const move = (target, follow) => moveCursor(this, target, follow);
  this.model = model;
  this.map = new HeatMap({onMove: move, onZoom: zoom});
  this.ribbons = new Ribbons({onMove: move});
  this.caption = element("p", {class: "caption"});
  this.readout = element("p", {class: "readout", "aria-live": "polite"});
  this.missing = element("p", {class: "caption", hidden: ""});
  this.clusters = element("div", {});
  this.overview = element("div", {});
  const details = element("dl", {class: "details"});
  for (const [name, text] of model.details) details.append(element("dt", {}, name), element("dd", {}, visible(text)));
  this.mapBox = element("div", {class: "map-box"}, this.map.box, this.readout);
  this.ribbonBox = element("div", {class: "ribbon-box"}, this.ribbons.box);
  this.detail = element("div", {class: "detail"}, this.mapBox, this.ribbonBox,
                        element("div", {class: "overview-box"}, element("h3", {}, "All layers and heads"), this.overview));
  this.box = element("article", {class: "card", "aria-label": model.name}, element("h2", {}, visible(model.name)), details,
                     this.missing, this.caption, this.detail, this.clusters);
}

function moveCursor(card, {row, column, rows = 0, columns = 0}, follow) {
  const within = (value, count) => Math.max(0, Math.min(count - 1, value));
  state.row = within(row ?? state.row + rows, card.shown.matrix.rows);
  state.column = within(column ?? state.column + columns, card.shown.matrix.columns);
  for (const other of cards) showCursor(other, follow && other === card);
}

function showCursor(card, follow) {
  if (!card.shown) return;
  const {matrix, labels, pass} = card.shown;
  const row = Math.min(state.row, matrix.rows - 1), column = Math.min(state.column, matrix.columns - 1);
  card.map.showCursor(row, column, follow);
  if (card.shown.chosen !== row) {
    card.shown.chosen = row;
    card.ribbons.draw(card.shown);
  }
  if (follow) card.ribbons.follow(row);
  const name = token => element("bdi", {}, visible(token));
  const weight = matrix.values[row * matrix.columns + column];
  const query = state.sublayer === ENCODER ? ["Query ", name(labels.rows[row])]
      : ["Step ", String(row + 1), " reads ", name(pass.inputs[row]), ", predicts ", name(pass.outputs[row] ?? "(end)")];
  card.readout.replaceChildren(...query, "; key ", String(column + 1), " ", name(labels.columns[column]), ": ",
                               element("b", {class: "value"}, weightText(weight)));
}

// The size of the card's cells. A map that fits leaves room for the ribbons beside it if the card is wide.
function cellOf(card, labels) {
  if (state.cell > 0) return state.cell;
  const width = card.detail.clientWidth || 600;
  return fittingCell(labels, width < 800 ? width : 0.62 * width, window.innerWidth < 520);
}

function zoom(step) {
  const shown = cards.find(card => card.shown);
  if (!shown) return;
  const cell = shown.map.layout.cell;
  state.cell = Math.max(1, Math.min(MOST_CELL, step > 0 ? Math.max(cell + 1, Math.round(cell * 1.3)) : Math.min(cell - 1, Math.round(cell / 1.3))));
  draw();
}

function drawCard(card, weights, palette) {
  const {pass} = weights;
  const matrix = weights.matrix(state.sublayer, state.layer, state.head);
  card.missing.hidden = matrix !== null;
  card.mapBox.hidden = card.ribbonBox.hidden = card.caption.hidden = matrix === null;
  card.missing.textContent = `This model does not have ${layerText(state.layer)}, ${headText(state.head)}.`;
  card.overview.replaceChildren(overviewOf({weights, ...state, palette, width: card.box.clientWidth, onChoose: (layer, head) => {
    Object.assign(state, {layer, head});
    draw().then(() => card.overview.querySelector('[aria-pressed="true"]')?.focus());
  }}));
  card.shown = null;
  card.clusters.replaceChildren(...[state.layer > 0 && clustersOf(pass, state.sublayer, state.layer, state.head),
                                 state.sublayer !== DECODER && clausesBox(pass)].filter(Boolean));
  if (!matrix) return;
  const attentions = pass.attentions.filter(attention => attention.sublayer === state.sublayer);
  const figures = state.layer > 0
      ? `${state.head === 0 ? "on average, a head has " : ""}${figuresText(figuresOf(attentions, state.layer, state.head))}${spanText(card.model, state.sublayer, state.layer, state.head)}` : "";
  const place = `${SUBLAYER_NAMES[state.sublayer]}, ${layerText(state.layer)}, ${headText(state.head)}`;
  card.caption.replaceChildren(element("b", {}, place), figures ? `: ${figures}` : "", othersText(card.model, attentions));
  const labels = labelsOf(pass, state.sublayer, state.rows);
  card.shown = {pass, matrix, labels, palette, scale: state.scale, threshold: state.threshold / 100, chosen: -1,
                name: card.model.name, caption: `${place}${figures ? `: ${figures}` : ""}`,
                description: `${card.model.name}, ${place}: ${matrix.rows} rows, ${matrix.columns} columns`};
  card.map.draw({...card.shown, cell: cellOf(card, labels)});
  showCursor(card, false);
}

// Says which head the first view is of, and that there are others.
function othersText(model, attentions) {
  const sharpest = sharpestHead(state.sublayer), heads = attentions.reduce((sum, attention) => sum + attention.heads, 0);
  if (state.head === 0 || heads < 2) return "";
  const isSharpest = model === report.models[0] && state.layer === sharpest.layer && state.head === sharpest.head;
  return `${isSharpest ? `; the sharpest of ${heads} heads` : ""}. The small maps and the controls choose another head, or the mean of all ${heads}.`;
}

let drawing = 0;
async function draw() {
  const ticket = ++drawing;
  fixState();
  writeAddress();
  document.documentElement.classList.toggle("dark", isDark());
  const palette = PALETTES[isDark() ? "dark" : "light"];
  const passes = cards.map(card => card.model.passes.find(pass => pass.sentence === state.sentence));
  const weights = await Promise.all(passes.map(weightsOf));
  if (ticket !== drawing) return;  // a later draw() began
  drawControls();
  cards.forEach((card, i) => drawCard(card, weights[i], palette));
  const shown = cards.filter(card => card.shown);
  const hasNegative = shown.some(card => card.shown.matrix.values.some(weight => weight < 0));
  drawLegend(byId("legend"), palette, hasNegative, isCausal(state.sublayer));
  document.documentElement.setAttribute("data-drawn", ticket);
}

function fixState() {
  const within = (value, high) => Math.max(0, Math.min(high, Math.round(Number(value)) || 0));
  state.sentence = within(state.sentence, report.sentences.length - 1);
  if (!present.includes(state.sublayer)) state.sublayer = present[0];
  state.layer = within(state.layer, most(state.sublayer, place => place.layer));
  state.head = within(state.head, most(state.sublayer, place => place.heads.length));
  if (state.layer === 0) state.head = 0;
  state.threshold = Math.max(1, within(state.threshold, 100));
  state.cell = within(state.cell, MOST_CELL);
  if (!["one", "row"].includes(state.scale)) state.scale = "one";
  if (!["outputs", "inputs"].includes(state.rows)) state.rows = "outputs";
}

function fill(id, options, chosen) {
  byId(id).replaceChildren(...options.map(([value, text]) => element("option", {value}, text)));
  byId(id).value = String(chosen);
}

function drawControls() {
  fill("sentence", report.sentences.map((sentence, i) => {
    const words = Array.from(visible(sentence.texts[0]?.[1] ?? ""));
    return [i, `${sentence.line}: ${words.length > 40 ? `${words.slice(0, 40).join("")}…` : words.join("")}`];
  }), state.sentence);
  byId("previous").disabled = state.sentence === 0;
  byId("next").disabled = state.sentence === report.sentences.length - 1;
  fill("sublayer", present.map(sublayer => [sublayer, SUBLAYER_NAMES[sublayer]]), state.sublayer);
  const numbers = count => Array.from({length: count}, (_, i) => [i + 1, String(i + 1)]);
  const layers = most(state.sublayer, place => place.layer);
  fill("layer", [[0, "mean of all"], ...numbers(layers)], state.layer);
  fill("head", [[0, "mean of all"], ...(state.layer > 0 ? numbers(most(state.sublayer, place => place.heads.length)) : [])], state.head);
  byId("rows").value = state.rows;
  byId("rows-control").hidden = state.sublayer !== CROSS;
  byId("scale").value = state.scale;
  byId("threshold").value = state.threshold;
  byId("threshold-value").textContent = `${state.threshold}%`;
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  const list = element("dl", {});
  for (const [heading, text] of report.sentences[state.sentence].texts)
    list.append(element("dt", {}, heading), element("dd", {}, visible(text)));
  byId("texts").replaceChildren(list);
}

// The address: #sentence=3&attention=cross&layer=2&head=1.
function writeAddress() {
  const parts = {sentence: state.sentence + 1, attention: SUBLAYER_KEYS[state.sublayer], layer: state.layer,
                 head: state.head, rows: state.rows, colours: state.scale, ribbons: state.threshold, cell: state.cell,
                 ...(state.theme ? {theme: state.theme} : {})};
  try {
    history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
  } catch {
    // Some browsers do not let a file change its address. The page works without it.
  }
}

function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const number = (name, otherwise) => parts.has(name) ? Number(parts.get(name)) : otherwise;
  state.sentence = number("sentence", state.sentence + 1) - 1;
  const sublayer = SUBLAYER_KEYS.indexOf(parts.get("attention"));
  if (sublayer >= 0) state.sublayer = sublayer;
  const sharpest = sharpestHead(state.sublayer);
  state.layer = number("layer", sharpest.layer);
  state.head = number("head", parts.has("layer") ? 0 : sharpest.head);
  state.rows = parts.get("rows") ?? state.rows;
  state.scale = parts.get("colours") ?? state.scale;
  state.threshold = number("ribbons", state.threshold);
  state.cell = number("cell", state.cell);
  if (["light", "dark"].includes(parts.get("theme"))) state.theme = parts.get("theme");
}

function toSentence(step) {
  state.sentence += step;
  Object.assign(state, {row: 0, column: 0});
  return draw();
}

function connectControls() {
  const choose = (id, name, convert = Number) => byId(id).addEventListener("change", event => {
    state[name] = convert(event.target.value);
    draw();
  });
  choose("sentence", "sentence");
  byId("sublayer").addEventListener("change", event => {
    state.sublayer = Number(event.target.value);
    if (state.head > 0) Object.assign(state, sharpestHead(state.sublayer));
    draw();
  });
  choose("layer", "layer");
  choose("head", "head");
  choose("rows", "rows", String);
  choose("scale", "scale", String);
  byId("threshold").addEventListener("input", event => { state.threshold = Number(event.target.value); draw(); });
  const press = (id, action) => byId(id).addEventListener("click", action);
  press("previous", () => toSentence(-1));
  press("next", () => toSentence(1));
  press("smaller", () => zoom(-1));
  press("larger", () => zoom(1));
  press("fit", () => { state.cell = 0; draw(); });
  press("theme", () => { state.theme = isDark() ? "light" : "dark"; draw(); });
  press("save", () => savePicture(cards.filter(card => card.shown).map(card => card.shown), `attention-${report.sentences[state.sentence].line}.svg`));
  byId("controls").addEventListener("submit", event => event.preventDefault());
  document.addEventListener("keydown", event => {
    const isTyping = event.target instanceof HTMLElement && ["SELECT", "INPUT"].includes(event.target.tagName);
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "j" || event.key === "k") toSentence(event.key === "j" ? 1 : -1);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  window.addEventListener("hashchange", () => { readAddress(); draw(); });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) draw();
    width = window.innerWidth;
  });
}

function start() {
  byId("cards").append(...cards.map(card => card.box));
  drawStatistics(byId("statistics"));
  drawSweep(byId("sweep"));
  connectControls();
  readAddress();
  return draw();
}

function fail(error) {
  byId("failure").hidden = false;
  byId("failure").textContent = typeof DecompressionStream === "undefined"
      ? "This browser has no DecompressionStream, which unpacks the weights; open the page in a newer one."
      : `The page cannot be drawn: ${error.message}`;
}

window.addEventListener("unhandledrejection", event => fail(event.reason));
start().catch(fail);
