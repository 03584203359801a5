// The picture as an SVG file: heat map and ribbons of each card side by side.

// Cells of one colour as one path.
function cellPaths(matrix, palette, scale, cell) {
  const full = fullScales(matrix, scale), byColour = new Map();
  for (let r = 0; r < matrix.rows; ++r) {
    for (let c = 0; c < matrix.columns;) {
      const colour = css(weightColour(palette, matrix.values[r * matrix.columns + c], full[r]));
      let end = c + 1;
      while (end < matrix.columns && css(weightColour(palette, matrix.values[r * matrix.columns + end], full[r])) === colour) ++end;
      if (!byColour.has(colour)) byColour.set(colour, []);
      byColour.get(colour).push(`M${c * cell} ${r * cell}h${(end - c) * cell}v${cell}h${(c - end) * cell}z`);
      c = end;
    }
  }
  return [...byColour].map(([fill, parts]) => svgElement("path", {fill, d: parts.join("")}));
}

// A <g> with the heat map, and its size.
function mapGroup({matrix, labels, palette, scale}) {
  const cell = Math.max(4, Math.min(18, Math.floor(900 / Math.max(matrix.rows, matrix.columns))));
  const {font, step, side, top, most} = mapLayout(labels, cell);
  const group = svgElement("g", {"font-size": font, fill: palette.text});
  group.append(svgElement("g", {transform: `translate(${side} ${top})`, "shape-rendering": "crispEdges"},
                          ...cellPaths(matrix, palette, scale, cell)));
  labels.rows.forEach((token, r) => r % step || group.append(svgElement("text", {
    x: side - 4, y: top + (r + 0.5) * cell + font / 3, "text-anchor": "end"}, shortened(token, most, font))));
  labels.columns.forEach((token, c) => c % step || group.append(standsUpright(token)
      ? svgElement("text", {x: side + (c + 0.5) * cell, y: top - 4, "text-anchor": "middle"}, uprightLabel(token))
      : svgElement("text", {transform: `translate(${side + (c + 0.5) * cell + font / 3} ${top - 4}) rotate(-90)`},
                   shortened(token, most, font))));
  const axis = {"font-size": AXIS_FONT, fill: palette.muted};
  group.append(svgElement("text", {...axis, x: side - 4, y: top - 18, "text-anchor": "end"}, `${labels.columnAxis} →`),
               svgElement("text", {...axis, x: 2, y: top - 4}, `${labels.rowAxis} ↓`));
  return {group, width: side + matrix.columns * cell, height: top + matrix.rows * cell};
}

// `cards` are what the page shows: {name, caption, matrix, labels, palette, scale, threshold}.
function pictureSvg(cards) {
  const margin = 16, head = 48;
  const svg = svgElement("svg", {xmlns: "http://www.w3.org/2000/svg", "font-family": FONT});
  const palette = cards[0].palette;
  svg.append(svgElement("rect", {width: "100%", height: "100%", fill: palette.page}));
  let x = margin, height = 0;
  for (const card of cards) {
    const map = mapGroup(card), ribbons = ribbonGroup({...card, chosen: -1});
    const title = (y, size, fill, text) => svgElement("text", {x, y, "font-size": size, fill}, visible(text));
    svg.append(title(22, 15, palette.text, card.name), title(40, 12, palette.muted, card.caption));
    map.group.setAttribute("transform", `translate(${x} ${head})`);
    ribbons.group.setAttribute("transform", `translate(${x + map.width + margin} ${head})`);
    svg.append(map.group, ribbons.group);
    x += Math.max(map.width + margin + ribbons.layout.width, textWidth(card.caption, 12)) + 2 * margin;
    height = Math.max(height, head + Math.max(map.height, ribbons.layout.height) + margin);
  }
  svg.setAttribute("width", x);
  svg.setAttribute("height", height);
  svg.setAttribute("viewBox", `0 0 ${x} ${height}`);
  return new XMLSerializer().serializeToString(svg);
}

function savePicture(cards, name) {
  const url = URL.createObjectURL(new Blob([pictureSvg(cards)], {type: "image/svg+xml"}));
  const link = element("a", {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
