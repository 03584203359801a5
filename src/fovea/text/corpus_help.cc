#include <algorithm>
#include <filesystem>
#include <map>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/signals.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_readers.h"
#include "fovea/text/entities.h"

namespace fovea::text {
namespace fs = std::filesystem;
namespace {

struct Paragraph {
  std::string id, text;
};

// The value of an attribute of a tag's inside, `p id="par_1" class="code"`.
std::string_view attribute(std::string_view tag, std::string_view name) {
  const std::string wanted = cat(" ", name, "=\"");
  const size_t at = tag.find(wanted);
  if (at == std::string_view::npos) return {};
  const size_t start = at + wanted.size();
  return tag.substr(start, tag.find('"', start) - start);
}

bool is_paragraph(std::string_view element) {
  return element == "p" || (!element.empty() && element[0] == 'h' && element.size() <= 2 &&
                            (element.size() == 1 || (element[1] >= '1' && element[1] <= '6')));
}

// The text without tags, with a blank where a line breaks.
std::string plain_text(std::string_view html) {
  std::string text;
  for (size_t i = 0; i < html.size();) {
    if (html[i] != '<') {
      text.push_back(html[i++]);
      continue;
    }
    if (html.substr(i, 3) == "<br") text.push_back(' ');
    const size_t end = html.find('>', i);
    i = end == std::string_view::npos ? html.size() : end + 1;
  }
  return decode_entities(text);
}

// Code is the same in every language, and no sentence.
std::vector<Paragraph> paragraphs_of(std::string_view html) {
  std::vector<Paragraph> paragraphs;
  for (size_t at = html.find('<'); at != std::string_view::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    if (end == std::string_view::npos) break;
    const std::string_view tag = html.substr(at + 1, end - at - 1);
    const std::string_view element = tag.substr(0, tag.find(' '));
    const std::string_view id = attribute(tag, "id");
    if (!is_paragraph(element) || !(id.starts_with("par_") || id.starts_with("hd_"))) continue;
    const size_t close = html.find(cat("</", element, ">"), end);
    if (close == std::string_view::npos) break;
    if (attribute(tag, "class") != "code")
      paragraphs.push_back({std::string(id), plain_text(html.substr(end + 1, close - end - 1))});
    at = close;
  }
  return paragraphs;
}

std::vector<fs::path> pages_of(const fs::path& folder) {
  std::vector<fs::path> pages;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied))
    if (entry.is_regular_file() && entry.path().extension() == ".html")
      pages.push_back(entry.path().lexically_relative(folder));
  std::sort(pages.begin(), pages.end());
  return pages;
}

// "…/help/en-US/text" -> "en", "…/pt-BR" -> "pt-br".
std::string language_of(fs::path folder) {
  if (!folder.has_filename()) folder = folder.parent_path();
  if (folder.filename() == "text") folder = folder.parent_path();
  const std::string name = lower(folder.filename().string());
  return name == "en-us" ? "en" : name;
}

// A paragraph may be embedded twice in a page: the occurrences pair up in order.
void pair_up(const std::vector<Paragraph>& source, const std::vector<Paragraph>& target, Bitext& bitext) {
  std::multimap<std::string_view, const Paragraph*> by_id;
  for (const Paragraph& paragraph : target) by_id.emplace(paragraph.id, &paragraph);
  for (const Paragraph& paragraph : source) {
    const auto found = by_id.lower_bound(paragraph.id);
    if (found == by_id.end() || found->first != paragraph.id) continue;
    bitext.pairs.push_back({paragraph.text, found->second->text});
    by_id.erase(found);
  }
}

}  // namespace

std::string find_help(const std::string& folder, const std::string& language) {
  fs::path pages = folder;
  for (const char* below : {"usr/share/libreoffice/help", "libreoffice/help", "help"})
    if (fs::is_directory(fs::path(folder) / below)) pages = fs::path(folder) / below;
  if (!fs::is_directory(pages))
    throw Error(cat("--libreoffice: no such folder: '", folder,
                    "'; expected one with LibreOffice's help packages unpacked into it"));
  std::vector<std::string> known;
  for (const auto& entry : fs::directory_iterator(pages)) {
    if (!fs::is_directory(entry.path() / "text")) continue;
    const std::string name = entry.path().filename();
    if (lower(name) == lower(language) || (language == "en" && name == "en-US")) return entry.path();
    known.push_back(lower(name));
  }
  std::sort(known.begin(), known.end());
  throw Error(cat("--languages: '", folder, "' has no help in '", language, "'; it has ",
                  known.empty() ? "none" : join(known, ", "), "; unpack libreoffice-help-",
                  language == "en" ? "en-us" : language, " into it"));
}

Bitext read_help(const std::string& source_folder, const std::string& target_folder) {
  Bitext bitext{.source_lang = language_of(source_folder), .target_lang = language_of(target_folder), .pairs = {}};
  int64_t common = 0;
  for (const fs::path& page : pages_of(source_folder)) {
    throw_if_interrupted("reading help pages");
    const fs::path translation = fs::path(target_folder) / page;
    if (!fs::exists(translation)) continue;
    ++common;
    pair_up(paragraphs_of(read_text_file(fs::path(source_folder) / page)), paragraphs_of(read_text_file(translation)),
            bitext);
  }
  if (common == 0)
    throw Error(cat("'", source_folder, "' and '", target_folder,
                    "' have no page in common; expected two folders of LibreOffice's help with the same .html files, ",
                    "such as help/en-US and help/de"));
  return bitext;
}

}  // namespace fovea::text
