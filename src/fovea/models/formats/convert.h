#pragma once
#include <string>
#include <tuple>
#include <vector>

#include "fovea/base/fields.h"

namespace fovea::models {

// `fovea convert`.
struct ConvertOptions {
  std::string from, to, output, vocab_ids;
  std::string precision = "float32";
  std::vector<std::string> input;  // the model to convert, without a flag
  std::vector<std::string> vocabs;
  bool source_eos = false;

  static constexpr auto fields() {
    using C = ConvertOptions;
    return std::tuple(
        choice("from", &C::from,
               "read a model of this form: bert and huggingface are folders of Hugging Face's (huggingface: Llama, "
               "Mistral, Qwen2, Qwen3, Gemma, Gemma 2, Gemma 3, Marian, M2M100 or NLLB), marian is the .npz of a "
               "training by Marian, ctranslate2 a folder of CTranslate2's",
               "bert|huggingface|marian|ctranslate2"),
        choice("to", &C::to, "write a model of Fovea's in this form", "bert|huggingface|ctranslate2"),
        named("output", &C::output, "folder to write", "o"),
        named("vocabs", &C::vocabs,
              "SentencePiece models of the source and the target, where the model's folder has none", "v"),
        choice("precision", &C::precision, "with --to huggingface, the type of the tensors of a language model",
               "float32|bfloat16|float16"),
        field("source-eos", &C::source_eos,
              "with --from ctranslate2, source sentences end with </s>, which the folder leaves to its tokeniser, as "
              "those of ct2-transformers-converter do"),
        field("vocab-ids", &C::vocab_ids,
              "with --from marian, the numbers of the pieces, if they are not those of --vocabs: OPUS-MT's vocab.yml"));
  }
};

// Throws an Error if something that is not a checkpoint is where one is to be written.
void require_checkpoint_place(const std::string& folder);
// Throws an Error if the folder to be written exists.
void require_new_folder(const std::string& folder);

// Reads a translation model of another system and writes a checkpoint, or the other way round. Throws an Error if that
// is not possible; nothing was written then.
void convert(const ConvertOptions& options);

}  // namespace fovea::models
