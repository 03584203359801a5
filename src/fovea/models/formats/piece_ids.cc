#include "fovea/models/formats/piece_ids.h"

#include <yaml-cpp/yaml.h>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/json_values.h"
#include "fovea/text/piece_order.h"

namespace fovea::models {
namespace {

constexpr int64_t kMostPieces = int64_t{1} << 24;

// Collects pieces by number.
class PieceList {
 public:
  explicit PieceList(std::string path) : path_(std::move(path)) {}

  void add(const std::string& piece, int64_t id) {
    if (id < 0 || id >= kMostPieces)
      throw Error(cat(path_, ": the piece '", piece, "' has the number ", id, "; expected 0 to ", kMostPieces - 1));
    const auto at = static_cast<size_t>(id);
    if (pieces_.size() <= at) pieces_.resize(at + 1);
    if (!pieces_[at].empty())
      throw Error(cat(path_, ": the pieces '", pieces_[at], "' and '", piece, "' both have the number ", id));
    pieces_[at] = piece;
  }
  std::vector<std::string> whole() && {
    for (size_t id = 0; id < pieces_.size(); ++id)
      if (pieces_[id].empty()) throw Error(cat(path_, ": the number ", id, " belongs to no piece"));
    if (pieces_.empty()) throw Error(cat(path_, ": holds no piece"));
    return std::move(pieces_);
  }

 private:
  std::string path_;
  std::vector<std::string> pieces_;
};

std::vector<std::string> pieces_of_json(const std::string& path) {
  const text::Json json = text::Json::parse(read_file(path), nullptr, false);
  if (json.is_discarded() || !(json.is_object() || json.is_array()))
    throw Error(cat(path, ": is not JSON; expected an object from pieces to their numbers, or a list of pieces"));
  PieceList list(path);
  int64_t next = 0;
  for (const auto& [key, value] : json.items()) {
    if (json.is_array() && !value.is_string())
      throw Error(cat(path, ": entry ", next, ": got ", text::shown_json(value), "; expected a piece"));
    if (json.is_array()) {
      list.add(value.get<std::string>(), next++);
    } else {
      list.add(key, text::whole_json(value, {0, kMostPieces}, cat(path, ": the piece '", key, "'")));
    }
  }
  return std::move(list).whole();
}

std::vector<std::string> pieces_of_yaml(const std::string& path) {
  PieceList list(path);
  try {
    const YAML::Node root = YAML::Load(read_file(path));
    if (!root.IsMap()) throw Error(cat(path, ": expected lines 'piece: number'"));
    for (const auto& entry : root) {
      if (!entry.first.IsScalar() || !entry.second.IsScalar())
        throw Error(cat(path, ": expected lines 'piece: number'"));
      list.add(entry.first.Scalar(), entry.second.as<int64_t>());
    }
  } catch (const YAML::Exception& error) {
    throw Error(cat(path, ": line ", error.mark.line + 1, ": ", error.msg, "; expected lines 'piece: number'"));
  }
  return std::move(list).whole();
}

}  // namespace

std::vector<std::string> read_piece_list(const std::string& path) {
  require_file(path, "vocabulary");
  return path.ends_with(".json") ? pieces_of_json(path) : pieces_of_yaml(path);
}

text::Vocab ordered_vocab(const std::string& model, const std::vector<std::string>& pieces) {
  const text::OrderedModel ordered =
      text::with_piece_order(text::Vocab::load(model).bytes(), pieces, cat("'", model, "'"));
  if (ordered.dropped > 0)
    log::warn(cat("'", model, "': ", thousands(ordered.dropped),
                  " pieces have no number; text with them is split into others"));
  return text::Vocab::from_bytes(ordered.bytes, model);
}

VocabPair read_vocabs(const ForeignFiles& files) {
  const std::string &source = files.vocabs.at(0), &target = files.vocabs.at(1);
  if (files.vocab_ids.empty()) return {text::Vocab::load(source), text::Vocab::load(target)};
  const std::vector<std::string> pieces = read_piece_list(files.vocab_ids);
  return {ordered_vocab(source, pieces), ordered_vocab(target, pieces)};
}

}  // namespace fovea::models
