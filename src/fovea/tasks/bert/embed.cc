#include "fovea/tasks/bert/embed.h"

#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/nn/safetensors.h"
#include "fovea/tasks/bert/encode_lines.h"
#include "fovea/tasks/bert/text_encoder.h"

namespace fovea::bert {
namespace {

void check_embed(const EmbedOptions& options) {
  Problems problems;
  problems.add_ranges(options);
  problems.add_if(options.model.empty(), "--model is missing; expected the folder of a model");
  problems.add_if(options.pieces && options.layer != EmbedOptions{}.layer,
                  "--layer: is for vectors; got it with --pieces; leave one of them out");
  problems.throw_if_any();
}

void write_pieces(const TextEncoder& encoder, const std::vector<std::string>& lines, const std::string& path) {
  LineWriter output(path);
  for (const std::string& line : lines) {
    std::vector<std::string> pieces;
    for (const int64_t token : encoder.encode(line)) pieces.push_back(encoder.piece(token));
    output.line(join(pieces, " "));
  }
  output.close();
}

}  // namespace

int64_t embed(const EmbedOptions& options) {
  check_embed(options);
  const TextEncoder encoder = load_encoder(options.model, options, "--model");
  const int64_t layer = layer_of(encoder, options.layer, "--layer");
  if (options.input != "-") require_file(options.input, "--input");
  const std::vector<std::string> lines = read_lines(options.input);
  if (options.pieces) {
    write_pieces(encoder, lines, options.output);
    return std::ssize(lines);
  }
  std::vector<std::vector<int64_t>> sequences;
  for (const std::string& line : lines) sequences.push_back(encoder.encode(line));
  LineWriter output(options.output);
  nn::NamedTensors vectors;
  each_vector(encoder, sequences, layer,
              [&](size_t line, const at::Tensor& vector) { vectors[std::to_string(line)] = vector; });
  output.write(nn::print_safetensors(vectors));
  output.close();
  return std::ssize(lines);
}

}  // namespace fovea::bert
