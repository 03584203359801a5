"use strict";

// The report's data: JSON in one element, and the weights of each pass in an element of their own.
const report = JSON.parse(document.getElementById("data").textContent);

const ENCODER = 0, DECODER = 1, CROSS = 2;
const HAS_SOURCE = report.models.some(model => model.passes.some(pass => pass.source.length > 0));
const SUBLAYER_NAMES = ["Encoder self-attention", HAS_SOURCE ? "Decoder self-attention" : "Self-attention",
                        "Cross-attention"];
const SUBLAYER_KEYS = ["encoder", "decoder", "cross"];

// The value of a byte, as a share of its head's scale.
const CODE_VALUES = Float32Array.from({length: 256}, (_, code) => {
  const size = ((code & 127) / report.levels) ** 2;
  return code < 128 ? size : -size;
});

// Returns the bytes of an element that holds base64 of zlib's format.
async function unpack(id) {
  const text = atob(document.getElementById(id).textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function isCausal(sublayer) { return sublayer === DECODER; }

// The weights of one model for one sentence.
class PassWeights {
  constructor(pass, bytes) {
    this.pass = pass;
    this.bytes = bytes;
    this.begins = [];
    let begin = 0;
    for (const attention of pass.attentions) {
      this.begins.push(begin);
      begin += attention.heads * this.pairs(attention);
    }
    if (begin !== bytes.length) throw new Error("The weights of this page are damaged.");
  }

  pairs({sublayer, rows, columns}) { return isCausal(sublayer) ? rows * (rows + 1) / 2 : rows * columns; }

  // Returns {rows, columns, values} of a layer and a head, both from 1; 0 is the mean. Later keys of causal attention
  // are NaN. Null if the model does not have the layer or the head.
  matrix(sublayer, layer, head) {
    const chosen = this.pass.attentions.map((attention, i) => ({attention, begin: this.begins[i]}))
        .filter(({attention}) => attention.sublayer === sublayer && (layer === 0 || attention.layer === layer));
    if (chosen.length === 0 || head > chosen[0].attention.heads) return null;
    const {rows, columns} = chosen[0].attention;
    const values = new Float32Array(rows * columns);
    const parts = [];
    for (const {attention, begin} of chosen) {
      for (let h = 0; h < attention.heads; ++h) {
        if (head === 0 || head === h + 1)
          parts.push({begin: begin + h * this.pairs(attention), scale: attention.scales[h]});
      }
    }
    for (const {begin, scale} of parts) {
      let at = begin;
      for (let r = 0; r < rows; ++r) {
        const length = isCausal(sublayer) ? r + 1 : columns;
        for (let c = 0; c < length; ++c) values[r * columns + c] += CODE_VALUES[this.bytes[at++]] * scale / parts.length;
        values.fill(NaN, r * columns + length, (r + 1) * columns);
      }
    }
    return {rows, columns, values};
  }
}

// Unpacked passes of the last few sentences.
const unpacked = new Map();
async function weightsOf(pass) {
  if (!unpacked.has(pass.weights)) {
    if (unpacked.size >= 6) unpacked.delete(unpacked.keys().next().value);
    unpacked.set(pass.weights, unpack(pass.weights).then(bytes => new PassWeights(pass, bytes)));
  }
  return unpacked.get(pass.weights);
}
