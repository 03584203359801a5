// The heat map of one matrix: a cell per query and key, with labels that stay in view, a cursor and a readout.
const MOST_CELL = 40, MOST_CANVAS = 8192;
const AXIS_FONT = 11, LEAST_SIDE = 62, LEAST_TOP = 34;  // room for the names of the axes in the corner

// Sizes in pixels of a heat map with cells of `cell` pixels.
function mapLayout(labels, cell, narrow = false) {
  const font = Math.max(9, Math.min(13, Math.floor(cell) - 1));
  const step = Math.max(1, Math.ceil((font + 1) / cell));  // labels, one per `step` cells
  const most = narrow ? 76 : 116;
  const longest = tokens => tokens.reduce((width, token, i) =>
      i % step ? width : Math.max(width, Math.min(most, textWidth(visible(token), font))), 20);
  return {cell, font, step, most, side: Math.max(LEAST_SIDE, Math.ceil(longest(labels.rows)) + 8),
          top: Math.max(LEAST_TOP, Math.ceil(longest(labels.columns)) + 8)};
}

function fittingCell(labels, width, narrow) {
  let {side} = mapLayout(labels, 24, narrow);
  const room = width - side - 4;
  return Math.max(1, Math.min(24, Math.floor(room / labels.columns.length)));
}

function sizedCanvas(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, MOST_CANVAS / Math.max(width, height, 1));
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

class HeatMap {
  // `onMove(row, column)` hears of the cursor, `onZoom(step)` of + and -.
  constructor({onMove, onZoom}) {
    this.onMove = onMove;
    this.onZoom = onZoom;
    this.rowAxis = element("span", {class: "row-axis"});
    this.columnAxis = element("span", {class: "column-axis"});
    this.corner = element("div", {class: "corner"}, this.columnAxis, this.rowAxis);
    this.top = element("canvas", {class: "top"});
    this.side = element("canvas", {class: "side"});
    this.cells = element("canvas");
    this.bands = [element("div", {class: "band"}), element("div", {class: "band"})];
    this.field = element("div", {class: "field"}, this.cells, ...this.bands);
    this.box = element("div", {class: "map", tabindex: "0", role: "application", "aria-roledescription": "heat map"},
                       element("div", {class: "map-grid"}, this.corner, this.top, this.side, this.field));
    this.field.addEventListener("pointermove", event => this.point(event));
    this.field.addEventListener("pointerdown", event => this.point(event));
    this.box.addEventListener("keydown", event => this.key(event));
  }

  draw({matrix, labels, palette, scale, cell, description}) {
    this.matrix = matrix;
    const layout = this.layout = mapLayout(labels, cell, window.innerWidth < 520);
    this.box.setAttribute("aria-label", description);
    const width = matrix.columns * cell, height = matrix.rows * cell;
    const cells = sizedCanvas(this.cells, width, height);
    cells.imageSmoothingEnabled = false;
    cells.drawImage(cellCanvas(matrix, palette, scale), 0, 0, width, height);
    if (cell >= 7) this.drawLines(cells, palette, width, height);
    this.drawSide(labels.rows, palette, height);
    this.drawTop(labels.columns, palette, width);
    this.rowAxis.textContent = `${labels.rowAxis} ↓`;
    this.columnAxis.textContent = `${labels.columnAxis} →`;
    this.corner.style.width = `${layout.side}px`;
    this.corner.style.height = `${layout.top}px`;
  }

  drawLines(context, palette, width, height) {
    context.strokeStyle = palette.line;
    context.lineWidth = 1;
    context.beginPath();
    for (let x = this.layout.cell; x < width; x += this.layout.cell) context.moveTo(x, 0), context.lineTo(x, height);
    for (let y = this.layout.cell; y < height; y += this.layout.cell) context.moveTo(0, y), context.lineTo(width, y);
    context.stroke();
  }

  drawSide(tokens, palette, height) {
    const {cell, font, step, side, most} = this.layout;
    const context = sizedCanvas(this.side, side, height);
    Object.assign(context, {font: `${font}px ${FONT}`, fillStyle: palette.text, textAlign: "right", textBaseline: "middle"});
    for (let i = 0; i < tokens.length; i += step)
      context.fillText(shortened(tokens[i], most, font), side - 4, (i + 0.5) * cell);
  }

  drawTop(tokens, palette, width) {
    const {cell, font, step, top, most} = this.layout;
    const context = sizedCanvas(this.top, width, top);
    Object.assign(context, {font: `${font}px ${FONT}`, fillStyle: palette.text, textAlign: "left", textBaseline: "middle"});
    for (let i = 0; i < tokens.length; i += step) {
      context.save();
      context.translate((i + 0.5) * cell, top - 4);
      const isUpright = standsUpright(tokens[i]);
      if (isUpright) Object.assign(context, {textAlign: "center", textBaseline: "alphabetic"});
      else context.rotate(-Math.PI / 2);
      context.fillText(isUpright ? uprightLabel(tokens[i]) : shortened(tokens[i], most, font), 0, 0);
      context.restore();
    }
  }

  // Shows the cursor; scrolls so that it is in view if `follow`.
  showCursor(row, column, follow) {
    const {cell, side, top} = this.layout;
    const [across, down] = this.bands;
    Object.assign(across.style, {left: "0", top: `${row * cell - 1}px`, height: `${cell + 2}px`, width: "100%"});
    Object.assign(down.style, {top: "0", left: `${column * cell - 1}px`, width: `${cell + 2}px`, height: "100%"});
    if (!follow) return;
    const {scrollLeft, scrollTop, clientWidth, clientHeight} = this.box;
    const left = column * cell, upper = row * cell;
    if (left < scrollLeft) this.box.scrollLeft = left;
    else if (left + cell + side > scrollLeft + clientWidth) this.box.scrollLeft = left + cell + side - clientWidth;
    if (upper < scrollTop) this.box.scrollTop = upper;
    else if (upper + cell + top > scrollTop + clientHeight) this.box.scrollTop = upper + cell + top - clientHeight;
  }

  point(event) {
    const bounds = this.cells.getBoundingClientRect();
    const row = Math.floor((event.clientY - bounds.top) / this.layout.cell);
    const column = Math.floor((event.clientX - bounds.left) / this.layout.cell);
    if (row >= 0 && row < this.matrix.rows && column >= 0 && column < this.matrix.columns) this.onMove({row, column}, false);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-10, 0],
                   PageDown: [10, 0], Home: [0, -Infinity], End: [0, Infinity]};
    if (event.key in moves) {
      const [rows, columns] = moves[event.key];
      this.onMove({rows, columns}, true);
    } else if (event.key === "+" || event.key === "=") {
      this.onZoom(1);
    } else if (event.key === "-") {
      this.onZoom(-1);
    } else {
      return;
    }
    event.preventDefault();
  }
}
