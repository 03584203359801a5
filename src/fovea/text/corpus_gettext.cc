#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <optional>

#include "fovea/base/error.h"
#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/strings.h"
#include "fovea/text/corpus_formats.h"
#include "fovea/text/corpus_readers.h"
#include "fovea/text/language_code.h"
#include "fovea/text/plural_forms.h"
#include "fovea/text/unicode.h"

// Catalogues of GNU gettext (.po), in the format of gettext's manual.
namespace fovea::text {
namespace {

struct Message {
  std::string id, plural;
  std::vector<std::string> translations;
  bool fuzzy = false;
};

std::string charset_of(const std::string& header) {
  const std::string type = header_field(header, "Content-Type:");
  const size_t at = type.find("charset=");
  const std::string charset = at == std::string::npos ? "" : type.substr(at + 8);
  return charset == "CHARSET" ? "" : charset;  // the template's placeholder
}

bool is_utf8_name(std::string_view charset) {
  const std::string name = lower(charset);
  return name.empty() || name == "utf-8" || name == "utf8" || name == "ascii" || name == "us-ascii";
}

// The language in a catalogue's path: messages.de.po, de.po, plugin-de_DE.po, de/LC_MESSAGES/messages.po.
std::string language_of_path(const std::string& path) {
  const std::filesystem::path file = without_packed_ending(std::filesystem::absolute(path));
  const std::string stem = file.stem();
  const size_t dot = stem.rfind('.'), dash = stem.rfind('-');
  const std::string last = dot == std::string::npos ? stem : stem.substr(dot + 1);
  if (is_language_code(last)) return last;
  const std::string behind_dash = dash == std::string::npos ? "" : stem.substr(dash + 1);
  if (has_place_or_script(behind_dash) && is_language_code(behind_dash)) return behind_dash;
  const std::filesystem::path folder = file.parent_path();
  const std::string above = folder.parent_path().filename();
  return folder.filename() == "LC_MESSAGES" && is_language_code(above) ? above : "";
}

// Returns the result of `read`; its Error names the file too.
template <class Read>
auto read_from(const std::string& path, const Read& read) {
  try {
    return read();
  } catch (const Error& e) {
    throw Error(cat("'", path, "': ", e.what()));
  }
}

Bitext bitext_of(const std::vector<Message>& messages, const std::string& path) {
  // A catalogue's source language is English by custom alone, unless it has Poedit's field.
  Bitext bitext{.source_lang = "en", .target_lang = {}, .pairs = {}, .source_by_custom = true};
  std::string charset;
  std::optional<PluralForms> forms;
  for (const Message& message : messages) {
    if (!message.id.empty() || message.translations.empty()) continue;
    charset = charset_of(message.translations[0]);
    forms = plural_forms_of(message.translations[0], path);
    bitext.target_lang = header_field(message.translations[0], "Language:");
    const std::string source = header_field(message.translations[0], "X-Source-Language:");
    if (source.empty()) continue;
    bitext.source_lang = source;
    bitext.source_by_custom = false;
  }
  if (bitext.target_lang.empty()) {
    bitext.target_lang = language_of_path(path);
    if (!bitext.target_lang.empty())
      log::info(cat("'", path, "' does not say its language; its name says ", bitext.target_lang));
  }
  const auto converted = [&](const std::string& text) {
    return is_utf8_name(charset) ? text : read_from(path, [&] { return to_utf8(text, charset); });
  };
  for (const Message& message : messages) {
    if (message.id.empty() || message.translations.empty()) continue;
    if (std::ranges::all_of(message.translations, &std::string::empty)) continue;
    if (message.fuzzy) {
      ++bitext.unfinished;
      continue;
    }
    const auto add = [&](const std::string& id, size_t form) {
      if (form < message.translations.size() && !message.translations[form].empty())
        bitext.pairs.push_back({converted(id), converted(message.translations[form])});
    };
    if (message.plural.empty()) {
      add(message.id, 0);
      continue;
    }
    // A form that stands for one and for many, as in Japanese, is a translation of the plural.
    const PluralForms own = used_forms(forms, message.translations.size());
    if (own.one != own.many) add(message.id, own.one);
    add(message.plural, own.many);
  }
  return bitext;
}

// Takes what stands behind a backslash off the text, as in C: a letter, up to three octal digits, or x and hexadecimal
// digits, the last two of which count. Any other character is itself.
char take_escaped(std::string_view& text) {
  const bool hex = text[0] == 'x';
  std::string_view digits = hex ? text.substr(1) : text.substr(0, 3);
  digits = digits.substr(0, digits.find_first_not_of(hex ? "0123456789abcdefABCDEF" : "01234567"));
  if (digits.empty()) {
    static constexpr std::string_view kLetters = "abfnrtv", kMeanings = "\a\b\f\n\r\t\v";
    const size_t known = kLetters.find(text[0]);
    const char meaning = known == std::string_view::npos ? text[0] : kMeanings[known];
    text.remove_prefix(1);
    return meaning;
  }
  text.remove_prefix(digits.size() + (hex ? 1 : 0));
  if (hex && digits.size() > 2) digits.remove_prefix(digits.size() - 2);
  unsigned byte = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), byte, hex ? 16 : 8);
  return static_cast<char>(byte);
}

class PoParser {
 public:
  explicit PoParser(const std::string& path) : reader_(path) {}

  std::vector<Message> parse() {
    for (std::string line; reader_.next(line);) take(trim(line));
    finish();
    return std::move(messages_);
  }

 private:
  [[noreturn]] void fail(std::string_view got, std::string_view expected) const {
    throw Error(cat("'", reader_.path(), "' line ", reader_.line_number(), ": got ", got, "; expected ", expected));
  }

  void take(std::string_view line) {
    if (line.empty()) return;
    if (line[0] == '#') {
      take_comment(line);
    } else if (line[0] == '"') {
      if (text_ == nullptr) fail("a quoted string first", "msgid before it");
      *text_ += unquote(line);
    } else {
      take_keyword(line);
    }
  }

  void take_comment(std::string_view line) {
    if (line.starts_with("#~")) {  // obsolete, as the flags before it
      finish();
      return;
    }
    if (has_translation_) finish();
    if (line.starts_with("#,") && line.find("fuzzy") != std::string_view::npos) message_.fuzzy = true;
  }

  void take_keyword(std::string_view line) {
    const size_t end = line.find_first_of(" \t\"");
    const std::string_view keyword = line.substr(0, end);
    const std::string_view value = end == std::string_view::npos ? "" : trim(line.substr(end));
    if (keyword == "domain") return;
    if ((keyword == "msgctxt" || keyword == "msgid") && has_translation_) finish();
    if (keyword == "msgctxt") {
      text_ = &context_;
    } else if (keyword == "msgid") {
      text_ = &message_.id;
    } else if (keyword == "msgid_plural") {
      text_ = &message_.plural;
    } else if (keyword == "msgstr" || keyword.starts_with("msgstr[")) {
      has_translation_ = true;
      const std::string form = cat("msgstr[", message_.translations.size(), "]");
      if (keyword != "msgstr" && keyword != form)
        fail(cat("'", keyword, "'"), cat("'", form, "'; put the plural's forms in order"));
      message_.translations.emplace_back();
      text_ = &message_.translations.back();
    } else {
      fail(cat("'", keyword, "'"), "msgid, msgstr, a quoted string or a comment; is it a gettext catalogue?");
    }
    text_->clear();
    *text_ += unquote(value);
  }

  std::string unquote(std::string_view text) const {
    if (text.size() < 2 || text.front() != '"' || text.back() != '"')
      fail(cat("'", text.substr(0, 40), "'"), "a string in quotes");
    text = text.substr(1, text.size() - 2);
    std::string out;
    while (!text.empty()) {
      // The converter counts a shift by ESC together with the letter behind it.
      const size_t length = length_ && text[0] != '\x1b' ? length_(text) : 1;
      const bool escapes = length == 1 && text[0] == '\\' && text.size() > 1;
      if (escapes) {
        text.remove_prefix(1);
        out.push_back(take_escaped(text));
      } else {
        out += text.substr(0, length);
        text.remove_prefix(length);
      }
    }
    return out;
  }

  void take_charset(const std::string& header) {
    const std::string charset = charset_of(header);
    length_ = nullptr;
    if (!is_utf8_name(charset)) length_ = read_from(reader_.path(), [&] { return character_length_in(charset); });
  }

  void finish() {
    if (has_translation_) {
      if (message_.id.empty()) take_charset(message_.translations[0]);
      messages_.push_back(std::move(message_));
    }
    message_ = {};
    context_.clear();
    has_translation_ = false;
    text_ = nullptr;
  }

  LineReader reader_;
  std::vector<Message> messages_;
  Message message_;
  std::string context_;
  std::string* text_ = nullptr;
  bool has_translation_ = false;
  // Bytes of the next character in the header's character set, where that is not UTF-8: in Big5, Shift-JIS and GBK the
  // second byte of two may be that of a backslash.
  std::function<size_t(std::string_view text)> length_;
};

}  // namespace

Bitext read_po(const std::string& path) { return bitext_of(PoParser(path).parse(), path); }

}  // namespace fovea::text
