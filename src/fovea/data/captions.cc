#include "fovea/data/captions.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/spreadsheet_lines.h"

namespace fovea::data {
namespace {
using Json = nlohmann::json;

// The lines of a JSON string, of which COCO's captions have several, as one line.
std::string as_one_line(const std::string& text) {
  if (text.find_first_of("\r\n") == std::string::npos) return text;
  std::string joined = text;
  std::ranges::replace(joined, '\r', '\n');
  std::string result;
  for (const std::string& line : split(joined, '\n'))
    if (const auto own = trim(line); !own.empty()) result += cat(result.empty() ? "" : " ", own);
  return result;
}

// Collects captions while the parser reads, so that a file of a hundred megabytes is never held as a tree.
class CaptionJson : public nlohmann::json_sax<Json> {
 public:
  explicit CaptionJson(const std::vector<std::string>& splits) : splits_(splits) {}

  std::vector<Caption> captions;
  std::set<std::string> other_splits;  // that were not asked for
  std::string problem;                 // empty: there is none

  bool start_object(size_t) override {
    if (path_ == kAnnotation) annotation_ = {}, ++annotations_;
    if (path_ == kImage) image_ = {}, ++images_;
    if (path_ == kSentence) sentence_ = {};
    return descend("");
  }
  bool end_object() override {
    ascend();
    if (path_ == kAnnotation) add(annotation_.id, annotation_.text, cat("annotation ", thousands(annotations_)));
    if (path_ == kImage) end_image();
    if (path_ == kSentence) image_.sentences.push_back(sentence_.tokens.empty() ? sentence_.raw : sentence_.tokens);
    return problem.empty();
  }
  bool key(string_t& name) override {
    path_.resize(starts_.back());
    path_ += cat(".", name);
    return true;
  }
  bool start_array(size_t) override { return descend("[]"); }
  bool end_array() override {
    ascend();
    return true;
  }
  bool number_integer(number_integer_t value) override { return see_id(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return see_id(std::to_string(value)); }
  bool string(string_t& text) override {
    if (path_ == ".annotations[].caption") annotation_.text = text;
    if (path_ == ".images[].split") image_.split = text;
    if (path_ == ".images[].sentences[].raw") sentence_.raw = text;
    if (path_ == ".images[].sentences[].tokens[]") sentence_.tokens += cat(sentence_.tokens.empty() ? "" : " ", text);
    return see_id(text);
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    problem = cat("is not JSON: ", error.what());
    return false;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  // Numbers of 2^64 and more come here, with their digits.
  bool number_float(number_float_t, const string_t& digits) override {
    return digits.find_first_not_of("0123456789") == string_t::npos ? see_id(digits) : true;
  }
  bool binary(binary_t&) override { return true; }

 private:
  static constexpr std::string_view kAnnotation = ".annotations[]", kImage = ".images[]",
                                    kSentence = ".images[].sentences[]";
  struct Annotation {
    std::string id, text;
  };
  struct Image {
    std::string split, coco, number;
    std::vector<std::string> sentences;
  };
  struct Sentence {
    std::string raw, tokens;
  };

  // The path of a value is that of its object, a dot and its key; arrays add "[]".
  bool descend(std::string_view added) {
    constexpr size_t kMaxDepth = 100;
    if (starts_.size() == kMaxDepth) problem = "is nested too deeply";
    outer_.push_back(path_.size());
    path_ += added;
    starts_.push_back(path_.size());
    return problem.empty();
  }
  void ascend() {
    path_.resize(outer_.back());
    outer_.pop_back();
    starts_.pop_back();
  }
  bool see_id(const std::string& id) {
    if (path_ == ".annotations[].image_id") annotation_.id = id;
    if (path_ == ".images[].cocoid") image_.coco = id;
    if (path_ == ".images[].imgid") image_.number = id;
    return true;
  }
  void end_image() {
    if (image_.sentences.empty()) return;  // COCO's own list of images
    if (std::ranges::find(splits_, image_.split) == splits_.end()) {
      other_splits.insert(image_.split);
      return;
    }
    const std::string& id = image_.coco.empty() ? image_.number : image_.coco;
    for (const std::string& text : image_.sentences) add(id, text, cat("image ", thousands(images_)));
  }
  void add(const std::string& id, const std::string& text, const std::string& place) {
    if (id.empty()) {
      problem = cat(place, " has no id (image_id, cocoid or imgid)");
    } else {
      captions.push_back({id, as_one_line(text)});
    }
  }

  const std::vector<std::string>& splits_;
  std::string path_;
  std::vector<size_t> outer_, starts_;  // of each open object or array: the path's length before it and inside
  int64_t annotations_ = 0, images_ = 0;
  Annotation annotation_;
  Image image_;
  Sentence sentence_;
};

std::vector<Caption> parse_json(std::string_view bytes, const std::string& name,
                                const std::vector<std::string>& splits) {
  CaptionJson reader(splits);
  Json::sax_parse(bytes.begin(), bytes.end(), &reader);
  if (!reader.problem.empty()) throw Error(cat(name, ": ", reader.problem));
  const std::vector<std::string> others(reader.other_splits.begin(), reader.other_splits.end());
  if (reader.captions.empty() && !others.empty())
    throw Error(cat(name, ": has no captions of the split ", join(splits, " or "), "; it has ", join(others, ", ")));
  if (reader.captions.empty())
    throw Error(
        cat(name, ": is JSON without captions; expected COCO's annotations or Karpathy's images with sentences"));
  return std::move(reader.captions);
}

// Flickr8k's "1.jpg#0" names the first caption of an image; 0 if the id has no such number.
size_t caption_number_size(std::string_view id) {
  const size_t digits = id.size() - std::min(id.find_last_not_of("0123456789") + 1, id.size());
  const bool is_number = digits > 0 && digits + 1 < id.size() && id[id.size() - digits - 1] == '#';
  return is_number ? digits + 1 : 0;
}

std::vector<Caption> parse_tsv(std::string_view bytes, const std::string& name) {
  std::vector<Caption> plain, unquoted;
  text::SpreadsheetLines spreadsheet;
  std::optional<Error> first_bad;
  for (int64_t number = 1; !bytes.empty(); ++number) {
    const size_t end = bytes.find('\n');
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    spreadsheet.add(line, [&](const std::vector<std::string>& columns) {
      if (columns.size() > 1) unquoted.push_back({columns[0], as_one_line(join(std::span(columns).subspan(1), "\t"))});
    });
    const size_t tab = line.find('\t');
    if (tab != std::string_view::npos && tab > 0) {
      plain.push_back({std::string(line.substr(0, tab)), std::string(line.substr(tab + 1))});
    } else if (!first_bad) {
      first_bad = Error(cat(name, ": line ", thousands(number), " is '", line.substr(0, 40),
                            "'; expected an image's id, a tab and a caption"));
    }
  }
  if (first_bad && !spreadsheet.is_spreadsheet()) throw *first_bad;
  std::vector<Caption>& captions = spreadsheet.is_spreadsheet() ? unquoted : plain;
  if (captions.empty()) throw Error(cat(name, ": the file is empty; expected captions"));
  const bool has_numbers =
      std::ranges::all_of(captions, [](const Caption& c) { return caption_number_size(c.image) > 0; });
  for (Caption& caption : captions)
    if (has_numbers) caption.image.resize(caption.image.size() - caption_number_size(caption.image));
  return std::move(captions);
}

}  // namespace

std::vector<Caption> parse_captions(std::string_view bytes, const std::string& name,
                                    const std::vector<std::string>& splits) {
  if (trim(bytes.substr(0, 64)).starts_with('{')) return parse_json(bytes, name, splits);
  if (!is_valid_utf8(bytes)) throw Error(cat(name, ": is not UTF-8 text; expected TSV or JSON"));
  return parse_tsv(bytes, name);
}

std::vector<Caption> read_captions(const std::vector<std::string>& paths, const std::string& option,
                                   const std::vector<std::string>& splits) {
  std::vector<Caption> all;
  for (const std::string& path : paths) {
    throw_if_interrupted("reading captions");
    require_file(path, option);
    std::vector<Caption> captions = parse_captions(read_unpacked(path), input_name(path), splits);
    log::info(cat("[data] ", thousands(std::ssize(captions)), " captions from ", input_name(path)));
    std::ranges::move(captions, std::back_inserter(all));
  }
  return all;
}

}  // namespace fovea::data
