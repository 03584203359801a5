// Ribbons from source tokens to target tokens, or from keys to queries: their widths are the shares of the row's weight.
const RIBBON_GAP = 130, RIBBON_HEAD = 18;  // the head names the sides

// The links {row, column, share}: the greatest of each row, and those with at least `threshold` of the row's weight. And
// the null rows.
function linksOf(matrix, threshold) {
  const links = [], nulls = [];
  for (let r = 0; r < matrix.rows; ++r) {
    let sum = 0, best = 0;
    const size = c => Math.abs(matrix.values[r * matrix.columns + c]) || 0;
    for (let c = 0; c < matrix.columns; ++c) {
      sum += size(c);
      if (size(c) > size(best)) best = c;
    }
    if (sum === 0) {
      nulls.push(r);
      continue;
    }
    for (let c = 0; c < matrix.columns; ++c) {
      const share = size(c) / sum;
      if (c === best || share >= threshold) links.push({row: r, column: c, share});
    }
  }
  return {links, nulls};
}

function ribbonLayout(labels, most = 150) {
  const count = Math.max(labels.rows.length, labels.columns.length);
  const line = count <= 60 ? 19 : 14, font = line - 6;
  const longest = tokens => Math.min(most, Math.max(40, ...tokens.map(token => textWidth(visible(token), font))));
  const left = Math.ceil(longest(labels.columns)) + 12, right = Math.ceil(longest(labels.rows)) + 24;
  return {line, font, left, right, width: left + RIBBON_GAP + right, height: RIBBON_HEAD + count * line + 8, most};
}

// Draws all ribbons into a <g>; those of the row `chosen` stand out.
function ribbonGroup({matrix, labels, palette, threshold, chosen}) {
  const layout = ribbonLayout(labels), {line, font, left} = layout;
  const {links, nulls} = linksOf(matrix, threshold);
  const group = svgElement("g", {"font-size": font, fill: palette.text});
  // The shorter side spreads, but not far, and stands in the middle.
  const yOf = (i, count) => {
    const height = layout.height - RIBBON_HEAD - 8, space = Math.min(1.6 * line, height / count);
    return RIBBON_HEAD + (i + 0.5) * space + 4 + (height - count * space) / 2;
  };
  const columnY = c => yOf(c, labels.columns.length), rowY = r => yOf(r, labels.rows.length);
  const head = {y: RIBBON_HEAD - 6, "font-size": AXIS_FONT, fill: palette.muted};
  group.append(svgElement("text", {...head, x: left - 6, "text-anchor": "end"}, labels.columnAxis),
               svgElement("text", {...head, x: left + RIBBON_GAP + 6}, labels.rowAxis));
  const paths = svgElement("g", {fill: "none", stroke: palette.ribbon});
  const half = left + RIBBON_GAP / 2, end = left + RIBBON_GAP;
  for (const {row, column, share} of links) {
    const isChosen = row === chosen;
    paths.append(svgElement("path", {
      d: `M${left} ${columnY(column)}C${half} ${columnY(column)} ${half} ${rowY(row)} ${end} ${rowY(row)}`,
      "stroke-width": Math.max(0.6, share * (line - 5)).toFixed(1),
      "stroke-opacity": (isChosen ? 0.95 : 0.12 + 0.5 * share).toFixed(2),
      stroke: isChosen ? palette.cursor : palette.ribbon,
    }));
  }
  group.append(paths);
  const linked = new Set(links.filter(link => link.row === chosen).map(link => link.column));
  labels.columns.forEach((token, c) => group.append(svgElement("text", {
    x: left - 6, y: columnY(c) + font / 3, "text-anchor": "end", "font-weight": linked.has(c) ? "bold" : "normal",
  }, shortened(token, layout.most, font))));
  const isNull = new Set(nulls);
  labels.rows.forEach((token, r) => group.append(svgElement("text", {
    x: end + 6, y: rowY(r) + font / 3, "font-weight": r === chosen ? "bold" : "normal",
    fill: isNull.has(r) ? palette.muted : palette.text,
  }, `${shortened(token, layout.most, font)}${isNull.has(r) ? " ∅" : ""}`)));
  return {group, layout, rowY};
}

class Ribbons {
  constructor({onMove}) {
    this.onMove = onMove;
    this.box = element("div", {class: "ribbons", tabindex: "0", role: "application", "aria-roledescription": "ribbons"});
    this.box.addEventListener("keydown", event => {
      const rows = {ArrowUp: -1, ArrowDown: 1}[event.key];
      if (!rows || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.onMove({rows, columns: 0}, true);
    });
    this.box.addEventListener("pointerdown", event => {
      const row = event.target.getAttribute && event.target.getAttribute("data-row");
      if (row !== null && row !== undefined) this.onMove({row: Number(row)}, false);
    });
  }

  draw(shown) {
    const {group, layout, rowY} = ribbonGroup(shown);
    this.layout = layout;
    this.rowY = rowY;
    for (let r = 0; r < shown.labels.rows.length; ++r) {
      group.append(svgElement("rect", {class: "row-hit", "data-row": r, x: layout.left + RIBBON_GAP,
                                       y: rowY(r) - layout.line / 2, width: layout.right, height: layout.line}));
    }
    const svg = svgElement("svg", {width: layout.width, height: layout.height, "font-family": FONT}, group);
    this.box.setAttribute("aria-label", shown.description);
    const {scrollTop, scrollLeft} = this.box;
    this.box.replaceChildren(svg);
    Object.assign(this.box, {scrollTop, scrollLeft});
  }

  follow(row) {
    const y = this.rowY(row), {scrollTop, clientHeight} = this.box, line = this.layout.line;
    if (y - line < scrollTop) this.box.scrollTop = y - line;
    else if (y + line > scrollTop + clientHeight) this.box.scrollTop = y + line - clientHeight;
  }
}
