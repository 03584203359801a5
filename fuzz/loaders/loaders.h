#pragma once
#include <string>
#include <string_view>

#include "fovea/base/error.h"

// The loaders of fuzz_loaders.cc. Each takes the bytes of a file as a stranger may have made it, and throws nothing but
// an Error of one line; what it loaded it checks.
namespace fovea::fuzz {

// Gives all bytes but the first to the loader that the first one names; an unknown name does nothing. Whatever the
// bytes are, a loader gives a value or throws the project's own Error, in one line; a foreign exception ends the
// program.
void load(std::string_view bytes);

// Leads the log's standard error nowhere; that of the sanitizers stays.
void silence_log();

// Ends the program, saying `what`, unless it holds.
void require(bool holds, std::string_view what);

// For what the project wrote itself: it must load.
template <class Load>
auto must_load(const Load& load) {
  try {
    return load();
  } catch (const Error& error) {
    require(false, error.what());
    throw;
  }
}

// A file that does not lie on a disk. Its path holds while it lives.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& put(std::string_view bytes) const;  // in place of what it has; gives the path
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

void load_lines(std::string_view bytes);
void load_written_lines(std::string_view bytes);  // the first byte chooses how they are packed

// Texts of language models: as bytes; and as the words and the characters that are counted in them.
void load_byte_text(std::string_view bytes);
void load_counted_text(std::string_view bytes);
void load_clauses(std::string_view bytes);
void load_units(std::string_view bytes);

// Images: a file of any kind, and the header of an .npy array alone.
void load_image_file(std::string_view bytes);
void load_captions(std::string_view bytes);
void load_npy_features(std::string_view bytes);
void load_npy(std::string_view bytes);

// Requests to the server: the first byte chooses JSON or a form, then the query, a NUL byte and the body; markup; text
// of several sentences.
void load_request(std::string_view bytes);
void load_markup(std::string_view bytes);
void load_paragraphs(std::string_view bytes);

// Corrections of clause labels.
void load_corrections(std::string_view bytes);

// Text in columns; BERT's vocab.txt or tokenizer.json and, behind its first NUL byte, a text.
void load_columns(std::string_view bytes);
void load_tokenizer_json(std::string_view bytes);
// Files of language models: a tokenizer.json, an index of tensors, a config.json.
void load_byte_pairs(std::string_view bytes);
void load_nllb(std::string_view bytes);
void load_chat_template(std::string_view bytes);
void load_torch_file(std::string_view bytes);
void load_tensor_index(std::string_view bytes);
void load_decoder_config(std::string_view bytes);
void load_word_pieces(std::string_view bytes);

void load_yaml(std::string_view bytes);
void load_run_record(std::string_view bytes);
void load_safetensors(std::string_view bytes);
void load_vocab(std::string_view bytes);
// The state of a training; a checkpoint's list of checksums; the labels of a tagger; the options of BERT's vocab.txt.
void load_progress(std::string_view bytes);
void load_checksums(std::string_view bytes);
void load_labels(std::string_view bytes);
void load_word_piece_options(std::string_view bytes);
// Rows of baselines; the first byte is the layer.
void load_baseline(std::string_view bytes);
// A run's train.yml, as another version may have written it.
void load_train_options(std::string_view bytes);

// The encoded text of a training.
void load_encoded(std::string_view bytes);
// The encoded text of a language model.
void load_encoded_units(std::string_view bytes);

// A line of links; the first byte chooses how it is read.
void load_gold(std::string_view bytes);

// Models of other systems: numpy's archives, as Marian writes them, and CTranslate2's model.bin.
void load_npz(std::string_view bytes);
void load_ctranslate2(std::string_view bytes);

// Terms of a translation.
void load_terms(std::string_view bytes);
void load_csv(std::string_view bytes);

void load_po(std::string_view bytes);
void load_tsv(std::string_view bytes);
void load_tmx(std::string_view bytes);
void load_xliff(std::string_view bytes);
// Two files, apart by ASCII's file separator.
void load_aligned(std::string_view bytes);

}  // namespace fovea::fuzz
