#include "fovea/models/formats/hugging_face_files.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/strings.h"
#include "fovea/models/translation/loaded_model.h"

namespace fovea::models {
namespace {

using WrittenJson = nlohmann::ordered_json;  // keeps the order of its fields

constexpr const char *kPadding = "<pad>", *kOtherPadding = "<zeros>";

std::vector<std::string> pieces_of(const text::Vocab& vocab) {
  std::vector<std::string> pieces;
  for (int64_t id = 0; id < vocab.size(); ++id) pieces.push_back(vocab.piece(id));
  return pieces;
}

at::Tensor with_row(const at::Tensor& table, double value) {
  if (!table.defined()) return table;
  std::vector<int64_t> shape = table.sizes().vec();
  shape[0] = 1;
  return at::cat({table, at::full(shape, value, table.options())});
}

int64_t number_of(const std::vector<std::string>& pieces, std::string_view piece) {
  return std::ranges::find(pieces, piece) - pieces.begin();
}

bool is_zeros(const at::Tensor& table, int64_t row) { return table[row].count_nonzero().item<int64_t>() == 0; }

// Chooses the padding among the pieces of the target. Its number is their count if it is not among them.
void choose_padding(PaddedModel& padded) {
  const int64_t size = std::ssize(padded.target_pieces);
  for (const char* piece : {kPadding, kOtherPadding}) {
    padded.padding_piece = piece;
    padded.padding = number_of(padded.target_pieces, piece);
    if (padded.padding == size || is_zeros(padded.tables.target, padded.padding)) return;
  }
  throw Error(cat("--to huggingface: the vectors of '", kPadding, "' and '", kOtherPadding,
                  "' are not zeros; expected a vocabulary without one of them"));
}

std::string vocabulary_json(const std::vector<std::string>& pieces) {
  WrittenJson json = WrittenJson::object();
  for (size_t id = 0; id < pieces.size(); ++id) json[pieces[id]] = id;
  return json.dump(2, ' ', false, WrittenJson::error_handler_t::replace) + "\n";
}

}  // namespace

void refuse_architecture(const Architecture& architecture, const std::string& what) {
  throw Error(cat("--to huggingface: the model has ", what, ", which ", architecture.name, " does not have"));
}

void require_architecture(const EncoderDecoderConfig& config, const Architecture& architecture) {
  const auto refuse = [&](const std::string& what) { refuse_architecture(architecture, what); };
  if (has_recurrent_decoder(config)) refuse("an SSRU in its decoder");
  if (config.transformer_norm != architecture.norm || config.transformer_norm_kind != "layer")
    refuse(cat(config.transformer_norm, "-norm of the kind ", config.transformer_norm_kind));
  if (config.norm_epsilon != 0 && config.norm_epsilon != 1e-5)
    refuse(cat("the norm epsilon ", shortest(config.norm_epsilon)));
  if (has_gated_feed_forward(config) || config.transformer_ffn_activation == "gelu-tanh")
    refuse(cat("the activation ", config.transformer_ffn_activation));
  if (config.transformer_heads_kv > 0 && config.transformer_heads_kv != config.transformer_heads)
    refuse("heads of keys that several query heads share");
  if (config.clause_flags) refuse("clause flags in its vocabulary");
  if (const std::string spec = first_sparse_attention(config); !spec.empty()) refuse(cat("the attention ", spec));
}

void require_marian_architecture(const EncoderDecoderConfig& config) {
  require_architecture(config, kMarianArchitecture);
  const auto refuse = [](const std::string& what) { refuse_architecture(kMarianArchitecture, what); };
  if (config.transformer_positions != "sinusoidal(first=0,paper)")
    refuse(cat("the positions ", config.transformer_positions));
  if (config.decoder_start != "zeros") refuse("a decoder that begins with the vector of </s>");
  if (config.output_bias == "none") refuse("an output layer without a bias");
  if (config.tied_embeddings_src && !config.tied_embeddings_all)
    refuse("one table for both sides, and another output matrix");
}

PaddedModel with_padding(const ForeignModel& model) {
  PaddedModel padded = {.source_pieces = pieces_of(model.source),
                        .target_pieces = pieces_of(model.target),
                        .tables = tables_of(model),
                        .padding_piece = {},
                        .unwanted = {}};
  const bool shared = padded.tables.source.is_same(padded.tables.target);
  if (shared && padded.source_pieces != padded.target_pieces)
    throw Error("--to huggingface: both sides share a table, but number their pieces differently");
  choose_padding(padded);
  if (padded.padding == std::ssize(padded.target_pieces)) {
    for (auto* pieces : {&padded.source_pieces, &padded.target_pieces}) pieces->push_back(padded.padding_piece);
    ModelTables& tables = padded.tables;
    tables.target = with_row(tables.target, 0);
    tables.source = shared ? tables.target : with_row(tables.source, 0);
    tables.output = with_row(tables.output, 0);
    tables.bias = with_row(tables.bias, kImpossibleLogit);
  }
  padded.end = number_of(padded.target_pieces, "</s>");
  padded.unwanted = {padded.padding};
  for (const int64_t id : translation::never_written(model.target, true))
    if (id != padded.padding) padded.unwanted.push_back(id);
  for (const std::string& piece : {padded.padding_piece, std::string("</s>")}) {
    const int64_t source = number_of(padded.source_pieces, piece), target = number_of(padded.target_pieces, piece);
    if (source != target)
      throw Error(cat("--to huggingface: '", piece, "' has the number ", source, " in the source's vocabulary and ",
                      target, " in the target's; MarianMTModel has one number for both"));
  }
  return padded;
}

std::string hugging_face_config(const EncoderDecoderConfig& config, const PaddedModel& padded) {
  const bool shared = padded.tables.source.is_same(padded.tables.target);
  const WrittenJson json = {{"architectures", {"MarianMTModel"}},
                            {"model_type", "marian"},
                            {"is_encoder_decoder", true},
                            {"vocab_size", padded.source_pieces.size()},
                            {"decoder_vocab_size", padded.target_pieces.size()},
                            {"d_model", config.dim_emb},
                            {"encoder_layers", config.enc_depth},
                            {"decoder_layers", config.dec_depth},
                            {"encoder_attention_heads", config.transformer_heads},
                            {"decoder_attention_heads", config.transformer_heads},
                            {"encoder_ffn_dim", config.transformer_dim_ffn},
                            {"decoder_ffn_dim", config.transformer_dim_ffn},
                            {"activation_function", config.transformer_ffn_activation},
                            {"dropout", config.transformer_dropout},
                            {"attention_dropout", config.transformer_dropout_attention},
                            {"activation_dropout", config.transformer_dropout_ffn},
                            {"max_position_embeddings", 1024},
                            {"static_position_embeddings", true},
                            {"scale_embedding", true},
                            {"share_encoder_decoder_embeddings", shared},
                            {"tie_word_embeddings", !padded.tables.output.defined()},
                            {"pad_token_id", padded.padding},
                            {"eos_token_id", padded.end},
                            {"bos_token_id", padded.end},
                            {"decoder_start_token_id", padded.padding},
                            {"forced_eos_token_id", padded.end},
                            {"torch_dtype", "float32"}};
  return json.dump(2) + "\n";
}

void write_vocabulary_files(const ForeignModel& model, const PaddedModel& padded, const std::filesystem::path& folder) {
  const bool separate = !padded.tables.source.is_same(padded.tables.target);
  write_file(folder / "source.spm", model.source.bytes());
  write_file(folder / "target.spm", model.target.bytes());
  write_file(folder / "vocab.json", vocabulary_json(padded.source_pieces));
  if (separate) write_file(folder / "target_vocab.json", vocabulary_json(padded.target_pieces));
  const WrittenJson tokenizer = {
      {"tokenizer_class", "MarianTokenizer"}, {"unk_token", "<unk>"},        {"eos_token", "</s>"},
      {"pad_token", padded.padding_piece},    {"separate_vocabs", separate}, {"model_max_length", 512}};
  write_file(folder / "tokenizer_config.json", tokenizer.dump(2) + "\n");
  WrittenJson unwanted = WrittenJson::array();
  for (const int64_t id : padded.unwanted) unwanted.push_back(WrittenJson::array({id}));
  const WrittenJson generation = {{"pad_token_id", padded.padding},
                                  {"eos_token_id", padded.end},
                                  {"decoder_start_token_id", padded.padding},
                                  {"bad_words_ids", unwanted},
                                  {"num_beams", 6},
                                  {"max_length", 512}};
  write_file(folder / "generation_config.json", generation.dump(2) + "\n");
}

}  // namespace fovea::models
