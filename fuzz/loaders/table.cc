#include <algorithm>
#include <array>

#include "loaders/loaders.h"

namespace fovea::fuzz {
namespace {

struct Loader {
  char name;
  void (*load)(std::string_view bytes);
};
constexpr std::array kLoaders = {
    Loader{'2', load_ctranslate2},
    Loader{'a', load_aligned},
    Loader{'b', load_byte_text},
    Loader{'c', load_tsv},
    Loader{'d', load_captions},
    Loader{'e', load_clauses},
    Loader{'f', load_npy_features},
    Loader{'g', load_gold},
    Loader{'i', load_image_file},
    Loader{'j', load_run_record},
    Loader{'k', load_counted_text},
    Loader{'l', load_lines},
    Loader{'n', load_npy},
    Loader{'o', load_columns},
    Loader{'p', load_po},
    Loader{'q', load_word_pieces},
    Loader{'s', load_safetensors},
    Loader{'t', load_tmx},
    Loader{'u', load_units},
    Loader{'v', load_vocab},
    Loader{'w', load_written_lines},
    Loader{'x', load_xliff},
    Loader{'y', load_yaml},
    Loader{'N', load_npz},
    Loader{'T', load_tokenizer_json},
    Loader{'B', load_baseline},
    Loader{'C', load_corrections},
    Loader{'E', load_encoded},
    Loader{'F', load_encoded_units},
    Loader{'D', load_decoder_config},
    Loader{'G', load_terms},
    Loader{'V', load_csv},
    Loader{'H', load_markup},
    Loader{'I', load_tensor_index},
    Loader{'J', load_byte_pairs},
    Loader{'Z', load_nllb},
    Loader{'K', load_checksums},
    Loader{'L', load_labels},
    Loader{'M', load_torch_file},
    Loader{'O', load_train_options},
    Loader{'P', load_progress},
    Loader{'Q', load_request},
    Loader{'R', load_chat_template},
    Loader{'S', load_paragraphs},
    Loader{'W', load_word_piece_options},
};

}  // namespace

void load(std::string_view bytes) {
  const auto* const loader =
      std::find_if(kLoaders.begin(), kLoaders.end(), [&](const Loader& l) { return bytes.starts_with(l.name); });
  if (loader == kLoaders.end()) return;
  try {
    loader->load(bytes.substr(1));
  } catch (const Error& error) {
    require(std::string_view(error.what()).find_first_of("\r\n") == std::string_view::npos,
            "an Error has more than one line");
  }
}

}  // namespace fovea::fuzz
