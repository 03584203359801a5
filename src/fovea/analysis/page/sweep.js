// The curve of the loss under several mechanisms, and its table.
const CURVE_COLOURS = ["#1f83c4", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8f98"];
const CURVE_DASHES = ["", "7 3", "2 3", "8 3 2 3"];

// Marks from `low` to `high`: multiples of 1, 2 or 5 times a power of ten, about six.
function axisTicks(low, high) {
  const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= 0.8 * rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; ++i) ticks.push(i * step);
  return {ticks, digits: Math.max(0, Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)))};
}

// The least and greatest value, with some room; never of length 0.
function axisRange(values, room) {
  const low = Math.min(...values), high = Math.max(...values);
  const spare = high > low ? (high - low) * room : Math.max(Math.abs(low) * 0.1, 0.5);
  return [low - spare, high + spare];
}

function strokeOf(index) {
  return {stroke: CURVE_COLOURS[index % CURVE_COLOURS.length], "stroke-width": 2,
          "stroke-dasharray": CURVE_DASHES[Math.floor(index / CURVE_COLOURS.length) % CURVE_DASHES.length]};
}

function sweepChart({curves, unit, x}) {
  const width = window.innerWidth < 520 ? 380 : 620, height = 320, left = 56, right = 16, top = 26, bottom = x ? 48 : 16;
  const points = curves.flatMap(curve => curve.points);
  const [low, high] = axisRange(points.map(point => point[1]), 0.06), [first, last] = axisRange(points.map(point => point[0]), 0.02);
  const xOf = value => left + (value - first) / (last - first) * (width - left - right);
  const yOf = value => top + (high - value) / (high - low) * (height - top - bottom);
  const line = (x1, y1, x2, y2, style) => svgElement("path", {d: `M${x1} ${y1}L${x2} ${y2}`, style});
  const label = (x, y, anchor, text) => svgElement("text", {x, y, "text-anchor": anchor, style: "fill:var(--muted)"}, text);
  const svg = svgElement("svg", {viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "font-size": 12,
                                 "aria-label": `loss per ${unit} of ${curves.length} curves; the table has the numbers`});
  svg.append(label(left, 14, "start", `loss, nats per ${unit}`));
  const vertical = axisTicks(low, high);
  for (const tick of vertical.ticks)
    svg.append(line(left, yOf(tick), width - right, yOf(tick), "stroke:var(--line)"), label(left - 8, yOf(tick) + 4, "end", tick.toFixed(vertical.digits)));
  if (x) {
    const horizontal = axisTicks(first, last);
    for (const tick of horizontal.ticks)
      svg.append(line(xOf(tick), top, xOf(tick), height - bottom, "stroke:var(--line)"), label(xOf(tick), height - bottom + 17, "middle", tick.toFixed(horizontal.digits)));
    svg.append(label((left + width - right) / 2, height - 10, "middle", x));
  }
  curves.forEach((curve, i) => {
    const path = curve.points.map(([px, py], place) => `${place ? "L" : "M"}${xOf(px).toFixed(1)} ${yOf(py).toFixed(1)}`).join("");
    svg.append(svgElement("path", {d: path, fill: "none", ...strokeOf(i)}));
    if (curve.level) return;
    for (const [px, py] of curve.points) svg.append(svgElement("circle", {cx: xOf(px).toFixed(1), cy: yOf(py).toFixed(1), r: 3.2, fill: strokeOf(i).stroke}));
  });
  return svg;
}

function sweepLegend(curves) {
  const swatch = i => svgElement("svg", {width: 30, height: 10, "aria-hidden": "true"}, svgElement("path", {d: "M0 5L30 5", ...strokeOf(i)}));
  return element("p", {class: "legend"}, ...curves.map((curve, i) => element("span", {class: "entry"}, swatch(i), visible(curve.name))));
}

function sweepTable({points, unit}) {
  const head = element("tr", {}, element("th", {scope: "col", class: "text"}, "Mechanism"),
                       element("th", {scope: "col"}, `Loss, nats per ${unit}`), element("th", {scope: "col"}, "Perplexity"));
  const body = element("tbody", {});
  for (const [spec, loss] of points)
    body.append(element("tr", {}, element("th", {scope: "row", class: "text"}, visible(spec)), element("td", {}, loss.toFixed(4)),
                        element("td", {}, Math.exp(loss).toFixed(2))));
  return element("div", {class: "table-box", tabindex: "0", role: "region", "aria-label": "Losses"},
                 element("table", {}, element("thead", {}, head), body));
}

function drawSweep(target) {
  if (!report.sweep) return;
  const {units, unit} = report.sweep, count = report.sentences.length;
  const note = `The first model under other mechanisms, without training: cross-entropy per ${unit}, the mean over ` +
      `${units.toLocaleString("en")} of ${count} ${count === 1 ? "sentence" : "sentences"}. Mechanisms that differ in one number make a ` +
      "curve; others are level lines.";
  target.hidden = false;
  target.replaceChildren(element("h2", {}, "Loss under other mechanisms"), element("p", {class: "caption"}, note),
                         element("div", {class: "sweep"}, element("div", {class: "chart-box"}, sweepChart(report.sweep), sweepLegend(report.sweep.curves)),
                                 sweepTable(report.sweep)));
}
