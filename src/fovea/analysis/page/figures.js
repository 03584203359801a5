// Tables of figures, and the clusters of routed heads.

// Mean of the heads, then least and greatest if there are several.
function rangeText(values, text) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  if (values.length === 1) return text(mean);
  return `${text(mean)} (${text(Math.min(...values)).replace("%", "")}–${text(Math.max(...values))})`;
}

// Adaptive spans; heads without one do not count.
function spanRange(spans) {
  const lengths = spans.filter(span => span !== null);
  return lengths.length === 0 ? "\u2013" : rangeText(lengths, span => span.toFixed(1));
}

// The span of a head, or with head 0 the mean of those of a layer; "" without any.
function spanText(model, sublayer, layer, head) {
  const place = model.statistics.find(entry => entry.sublayer === sublayer && entry.layer === layer);
  const spans = (place ? (head === 0 ? place.spans : place.spans.slice(head - 1, head)) : []).filter(span => span !== null);
  if (spans.length === 0) return "";
  return `; ${head === 0 ? "mean " : ""}span ${(spans.reduce((sum, span) => sum + span, 0) / spans.length).toFixed(1)} tokens`;
}

function statisticsTable(model) {
  const table = element("table", {});
  table.append(element("caption", {}, `${model.name}: mean of heads (least–greatest)`));
  const head = element("tr", {});
  const hasSpans = model.statistics.some(place => place.spans.length > 0);
  for (const [text, kind] of [["Attention", "text"], ["Layer", ""], ["Exact zeros", ""], ["Entropy, nats", ""],
                              ["Null rows", ""], ...(hasSpans ? [["Span, tokens", ""]] : []), ["Rows", ""], ["Pairs", ""]])
    head.append(element("th", {scope: "col", class: kind}, text));
  table.append(element("thead", {}, head));
  const body = element("tbody", {});
  const order = [ENCODER, DECODER, CROSS];
  for (const sublayer of order) {
    for (const place of model.statistics.filter(entry => entry.sublayer === sublayer)) {
      const of = i => place.heads.map(figures => figures[i]);
      const row = element("tr", {}, element("th", {scope: "row", class: "text"}, SUBLAYER_NAMES[sublayer]));
      for (const text of [place.layer, rangeText(of(0), percent), rangeText(of(1), value => value.toFixed(2)),
                          rangeText(of(2), percent), ...(hasSpans ? [spanRange(place.spans)] : []), place.rows.toLocaleString("en"), place.pairs.toLocaleString("en")])
        row.append(element("td", {}, String(text)));
      body.append(row);
    }
  }
  table.append(body);
  return element("div", {class: "table-box", tabindex: "0", role: "region", "aria-label": `Figures of ${model.name}`}, table);
}

function drawStatistics(target) {
  const count = report.sentences.length;
  const note = "Rows and pairs are of one head. A pair is a query and a key that does not come after it in a decoder. A " +
      "row is null if all of its weights are exactly zero; entropy is the mean over the other rows. These figures come " +
      `from the weights themselves. The pictures round them to ${report.levels} levels.`;
  target.replaceChildren(element("h2", {}, `Figures of ${count} ${count === 1 ? "sentence" : "sentences"}`),
                         element("p", {class: "caption"}, note),
                         element("div", {class: "tables"}, ...report.models.map(statisticsTable)));
}

// The tokens of each cluster; nothing for heads without clusters.
function clustersOf(pass, sublayer, layer, head) {
  const attention = pass.attentions.find(entry => entry.sublayer === sublayer && entry.layer === layer);
  const found = attention && attention.clusters.find(([place]) => place === head - 1);
  const routed = attention ? attention.clusters.map(([place]) => place + 1) : [];
  if (!found) {
    return routed.length === 0 ? null
        : element("p", {class: "caption"}, `Routed heads of this layer: ${routed.join(", ")}. Choose one to see its clusters.`);
  }
  const tokens = labelsOf(pass, sublayer, "inputs").rows;
  const chip = place => element("span", {class: "token", title: `position ${place + 1}`}, visible(tokens[place]));
  const list = element("ol", {});
  const members = new Set();
  for (const cluster of found[1]) {
    cluster.forEach(place => members.add(place));
    const item = element("li", {}, `${cluster.length} ${cluster.length === 1 ? "token" : "tokens"}: `);
    cluster.forEach(place => item.append(chip(place)));
    list.append(item);
  }
  const box = element("div", {class: "clusters"}, element("h3", {}, "Clusters of this head"), list);
  const outside = tokens.map((_, place) => place).filter(place => !members.has(place));
  if (outside.length > 0) box.append(element("p", {}, "In no cluster: ", ...outside.map(chip)));
  return box;
}
