// Colours of weights: a ramp for positive ones, one for negative ones, and a colour of its own for exact zeros.
const PALETTES = {
  light: {
    zero: [246, 228, 203], later: [240, 241, 243], text: "#1d2129", muted: "#5b6472", line: "#ffffff", page: "#ffffff",
    positive: [[222, 235, 247], [107, 174, 214], [33, 113, 181], [8, 48, 107]],
    negative: [[253, 219, 209], [239, 119, 98], [178, 24, 43]], ribbon: "#0b62a4", cursor: "#d55e00",
  },
  dark: {
    zero: [68, 51, 31], later: [29, 35, 44], text: "#e4e8ee", muted: "#9aa5b4", line: "#171c24", page: "#171c24",
    positive: [[27, 46, 70], [38, 96, 158], [89, 168, 232], [226, 242, 255]],
    negative: [[74, 31, 34], [176, 66, 58], [255, 170, 155]], ribbon: "#6db5f2", cursor: "#ffa657",
  },
};

// The colour at `t` in [0, 1] of a ramp.
function rampColour(ramp, t) {
  const place = Math.min(Math.max(t, 0), 1) * (ramp.length - 1);
  const i = Math.min(Math.floor(place), ramp.length - 2), f = place - i;
  return ramp[i].map((from, channel) => Math.round(from + (ramp[i + 1][channel] - from) * f));
}

// The greatest magnitude of each row, or 1.
function fullScales(matrix, scale) {
  const full = new Float32Array(matrix.rows).fill(1);
  let greatest = 1;
  for (const weight of matrix.values) greatest = Math.max(greatest, Math.abs(weight) || 0);
  if (scale !== "row") return full.fill(greatest);
  for (let r = 0; r < matrix.rows; ++r) {
    let most = 0;
    for (let c = 0; c < matrix.columns; ++c) most = Math.max(most, Math.abs(matrix.values[r * matrix.columns + c]) || 0);
    full[r] = most || 1;
  }
  return full;
}

// The colour of a weight whose row is full at `full`. Half of a ramp is at a quarter of it, so that small weights show.
function weightColour(palette, weight, full) {
  if (Number.isNaN(weight)) return palette.later;
  if (weight === 0) return palette.zero;
  const t = Math.sqrt(Math.abs(weight) / full);
  return rampColour(weight > 0 ? palette.positive : palette.negative, t);
}

function css([red, green, blue]) { return `rgb(${red},${green},${blue})`; }

// A canvas with one pixel per cell. With `most`, a pixel is the greatest weight of several cells, and there are at most
// `most` pixels along a side.
function cellCanvas(matrix, palette, scale, most = Infinity) {
  const step = Math.max(1, Math.ceil(Math.max(matrix.rows, matrix.columns) / most));
  const width = Math.ceil(matrix.columns / step), height = Math.ceil(matrix.rows / step);
  const canvas = element("canvas", {width, height});
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const full = fullScales(matrix, scale);
  for (let y = 0; y < height; ++y) {
    for (let x = 0; x < width; ++x) {
      const [red, green, blue] = weightColour(palette, greatestIn(matrix, y, x, step), full[y * step]);
      image.data.set([red, green, blue, 255], 4 * (y * width + x));
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// The weight of the greatest magnitude in a square of step x step cells; NaN if all of them are later keys.
function greatestIn(matrix, y, x, step) {
  if (step === 1) return matrix.values[y * matrix.columns + x];
  let found = NaN;
  for (let r = y * step; r < Math.min((y + 1) * step, matrix.rows); ++r) {
    for (let c = x * step; c < Math.min((x + 1) * step, matrix.columns); ++c) {
      const weight = matrix.values[r * matrix.columns + c];
      if (!Number.isNaN(weight) && !(Math.abs(found) >= Math.abs(weight))) found = weight;
    }
  }
  return found;
}

function drawLegend(target, palette, hasNegative, isCausalShown) {
  const ramp = colours => {
    const canvas = element("canvas", {width: 120, height: 1});
    const context = canvas.getContext("2d");
    for (let x = 0; x < 120; ++x) {
      context.fillStyle = css(rampColour(colours, Math.sqrt((x + 0.5) / 120)));
      context.fillRect(x, 0, 1, 1);
    }
    return canvas;
  };
  const entry = (sign, text) => element("span", {class: "entry"}, sign, text);
  const swatch = colour => {
    const out = element("span", {class: "swatch"});
    out.style.background = css(colour);
    return out;
  };
  const entries = [entry(swatch(palette.zero), "exactly 0"), entry(ramp(palette.positive), "above 0, up to full")];
  if (hasNegative) entries.push(entry(ramp(palette.negative), "below 0"));
  if (isCausalShown) entries.push(entry(swatch(palette.later), "later key, not seen"));
  target.replaceChildren(...entries);
}
