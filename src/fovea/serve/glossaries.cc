#include "fovea/serve/glossaries.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/file_set.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/json_values.h"
#include "fovea/text/language_code.h"

namespace fovea::serve {
namespace {

constexpr const char *kName = "name", *kCreated = "creation_time";

std::string base_of(const std::string& code) { return lower(code.substr(0, code.find_first_of("-_"))); }

// "ID.en-de.tsv".
struct FileName {
  std::string id, source, target;
};
std::optional<FileName> parts_of_name(const std::string& name) {
  constexpr std::string_view kEnd = ".tsv";
  if (!name.ends_with(kEnd)) return std::nullopt;
  const std::string stem = name.substr(0, name.size() - kEnd.size());
  const size_t point = stem.rfind('.');
  if (point == std::string::npos || point == 0) return std::nullopt;
  const std::string pair = stem.substr(point + 1);
  if (pair != lower(pair)) return std::nullopt;  // other files are written in lower case
  for (size_t dash = pair.find('-'); dash != std::string::npos; dash = pair.find('-', dash + 1)) {
    const std::string source = pair.substr(0, dash), target = pair.substr(dash + 1);
    if (text::is_language_tag(source) && text::is_language_tag(target))
      return FileName{stem.substr(0, point), source, target};
  }
  return std::nullopt;
}

// An identifier that can stand in a path of a request.
bool is_plain(const std::string& id) {
  return !id.empty() && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

int64_t changed_at(const std::filesystem::path& file) {
  const auto time = std::chrono::file_clock::to_sys(std::filesystem::last_write_time(file));
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

}  // namespace

std::string time_text(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S.000000Z", &parts);
  return text.data();
}

const GlossaryDictionary* Glossary::find(const std::string& source, const std::string& target) const {
  for (const GlossaryDictionary& dictionary : dictionaries)
    if (base_of(dictionary.source) == base_of(source) && base_of(dictionary.target) == base_of(target))
      return &dictionary;
  return nullptr;
}

Glossaries::Glossaries(const std::string& folder) : folder_(folder) {
  if (!folder.empty()) read();
}

std::filesystem::path Glossaries::file_of(const Glossary& glossary, const GlossaryDictionary& dictionary) const {
  return folder_ / cat(glossary.id, ".", dictionary.source, "-", dictionary.target, ".tsv");
}
std::filesystem::path Glossaries::head_of(const Glossary& glossary) const {
  return folder_ / cat(glossary.id, ".json");
}

void Glossaries::read() {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (!std::filesystem::is_directory(folder_))
    throw Error(cat("--glossaries: '", folder_.string(), "' is not a folder and cannot be made; expected a folder"));
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::map<std::string, Glossary> found;
  for (const std::filesystem::path& file : files) {
    const bool is_head = file.extension() == ".json" && is_plain(file.stem().string());
    const auto name = parts_of_name(file.filename().string());
    if (is_head) {
      const text::Json head = text::parse_json_object(read_text_file(file), file.string());
      Glossary& glossary = found[file.stem().string()];
      glossary.name = text::json_text(head, kName, file.string()).value_or("");
      glossary.created = text::json_text(head, kCreated, file.string()).value_or("");
    } else if (name && is_plain(name->id)) {
      const std::string entries = read_text_file(file);
      auto terms = std::make_shared<text::TermList>(text::TermList::from_text(entries, file.string()));
      found[name->id].dictionaries.push_back({name->source, name->target, entries, std::move(terms)});
    } else if (!file.filename().string().starts_with('.')) {
      log::warn(cat("--glossaries: '", one_line(file.string()),
                    "' is not read; expected names like NAME.en-de.tsv, languages in lower case, NAME of letters, "
                    "digits, - and _"));
    }
  }
  for (auto& [id, glossary] : found) {
    glossary.id = id;
    if (glossary.name.empty()) glossary.name = id;
    if (glossary.created.empty())
      glossary.created =
          time_text(glossary.dictionaries.empty() ? changed_at(head_of(glossary))
                                                  : changed_at(file_of(glossary, glossary.dictionaries.front())));
    by_id_.emplace(id, std::make_shared<const Glossary>(std::move(glossary)));
  }
}

void Glossaries::write(const Glossary& glossary) const {
  if (folder_.empty()) return;
  std::vector<std::filesystem::path> files = {head_of(glossary)};
  for (const GlossaryDictionary& dictionary : glossary.dictionaries) files.push_back(file_of(glossary, dictionary));
  FileSet set(files);
  for (const GlossaryDictionary& dictionary : glossary.dictionaries) {
    set.begin(file_of(glossary, dictionary));
    set.append(dictionary.entries);
  }
  set.begin(head_of(glossary));
  const nlohmann::ordered_json head = {{kName, glossary.name}, {kCreated, glossary.created}};
  set.append(head.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  set.commit();
}

void Glossaries::remove(const std::filesystem::path& file) const {
  std::error_code failure;
  std::filesystem::remove(file, failure);
  if (failure) throw Error(cat("cannot remove the glossary's file: ", failure.message()));
}

std::shared_ptr<const Glossary> Glossaries::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const Glossary>> Glossaries::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const Glossary>> list;
  for (const auto& [id, glossary] : by_id_) list.push_back(glossary);
  return list;
}

bool Glossaries::add(std::shared_ptr<const Glossary> glossary, int64_t most) {
  const std::lock_guard lock(mutex_);
  if (std::ssize(by_id_) >= most) return false;
  write(*glossary);
  by_id_.emplace(glossary->id, glossary);
  return true;
}

bool Glossaries::replace(const std::shared_ptr<const Glossary>& before, std::shared_ptr<const Glossary> after) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(before->id);
  if (found == by_id_.end() || found->second != before) return false;
  write(*after);
  if (!folder_.empty()) {
    for (const GlossaryDictionary& dictionary : before->dictionaries) {
      const auto stays = [&](const GlossaryDictionary& other) {
        return other.source == dictionary.source && other.target == dictionary.target;
      };
      if (std::ranges::none_of(after->dictionaries, stays)) remove(file_of(*before, dictionary));
    }
  }
  found->second = std::move(after);
  return true;
}

void Glossaries::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  if (!folder_.empty()) {
    for (const GlossaryDictionary& dictionary : found->second->dictionaries)
      remove(file_of(*found->second, dictionary));
    remove(head_of(*found->second));
  }
  by_id_.erase(found);
}

}  // namespace fovea::serve
