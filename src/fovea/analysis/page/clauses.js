// Clauses of the source, for models that attend within them.
const LEVEL_SIGNS = ["\u2460", "\u2461", "\u2462", "\u2463", "\u2464", "\u2465"];

// The source's labels: a sign stands before a token that begins a clause, with the lowest level of such a clause.
function sourceLabels(pass) {
  return pass.source.map((token, i) => i > 0 && pass.clauses[i] ? `${LEVEL_SIGNS[pass.clauses[i] - 1]}${visible(token)}` : token);
}

// The tokens of each clause of a level.
function clausesOfLevel(pass, level) {
  const out = [];
  pass.source.forEach((token, i) => {
    if (i === 0 || (pass.clauses[i] > 0 && pass.clauses[i] <= level)) out.push([]);
    out.at(-1).push(token);
  });
  return out;
}

// The clauses at each level that has starts of its own; null for models without clauses.
function clausesBox(pass) {
  if (!pass.clauses.some(level => level > 0)) return null;
  const levels = [...new Set(pass.clauses.filter(level => level > 0))].sort();
  const list = element("dl", {});
  for (const level of levels) {
    const chips = clausesOfLevel(pass, level).map(tokens => element("span", {class: "clause"}, tokens.map(visible).join(" ")));
    list.append(element("dt", {}, `${LEVEL_SIGNS[level - 1]} level ${level}`), element("dd", {}, ...chips));
  }
  return element("div", {class: "clauses"}, element("h3", {}, "Clauses of the source"), list);
}
