#include "fovea/models/translation/languages.h"

#include <vector>

#include "fovea/base/empty_line.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/text/language_code.h"
#include "fovea/text/sentencepiece_model.h"

namespace fovea::translation {
namespace {

constexpr const char *kSource = "--source-lang", *kTarget = "--target-lang";

// The model's code of a language.
std::string code_of(const text::Vocab& vocab, const std::string& given, const char* option) {
  const std::vector<std::string> codes = vocab.language_codes();
  if (codes.empty())
    throw Error(cat(option, ": got '", given, "', but the model's vocabulary has no marks of languages such as >>",
                    given, "<<; leave it out"));
  const std::vector<std::string> meant = text::matching_codes(codes, given);
  if (meant.size() == 1) return meant.front();
  if (!meant.empty()) throw Error(cat(option, ": got '", given, "'; expected one of ", join(meant, ", ")));
  const std::string got = given.empty() ? cat(option, " is missing") : cat(option, ": got '", given, "'");
  throw Error(cat(got, "; expected a language of the model: ", join(codes, ", "), did_you_mean(given, codes)));
}

}  // namespace

bool marks_both_sides(const LoadedModel& model) { return model.model->config().language_marks == "both"; }

LanguageChoice known_languages(const LoadedModel& model, const LanguageChoice& choice) {
  LanguageChoice known;
  const bool both = marks_both_sides(model);
  if (!choice.source.empty()) {
    known.source = code_of(model.source, choice.source, kSource);
    if (!both)
      throw Error(cat(kSource, ": got '", choice.source,
                      "', but the model's marks are of the wanted language alone (--target-lang); leave it out"));
  }
  if (!choice.target.empty()) known.target = code_of(both ? model.target : model.source, choice.target, kTarget);
  return known;
}

LanguageMarks language_marks(const LoadedModel& model, const LanguageChoice& choice) {
  LanguageMarks marks;
  const bool both = marks_both_sides(model);
  const LanguageChoice known = known_languages(model, choice);
  if (!known.source.empty()) marks.source = text::language_mark(known.source);
  if (known.target.empty()) return marks;
  if (both) marks.first_token = model.target.language_piece(known.target);
  (both ? marks.target : marks.source) = text::language_mark(known.target);
  return marks;
}

void require_languages(const LoadedModel& model, const LanguageChoice& choice) {
  if (!marks_both_sides(model)) return;
  (void)code_of(model.source, choice.source, kSource);
  (void)code_of(model.target, choice.target, kTarget);
}

std::string marked_line(const LoadedModel& model, Side side, const LanguageMarks& marks, const std::string& line) {
  const bool is_source = side == Side::kSource;
  const std::string& mark = is_source ? marks.source : marks.target;
  const bool needs_mark = marks_both_sides(model);
  if (is_empty_line(line) || (mark.empty() && !needs_mark)) return line;
  const text::Vocab& vocab = is_source ? model.source : model.target;
  const std::string_view own = text::leading_language_mark(line);
  if (!own.empty() && vocab.language_piece(text::code_of_mark(own))) return line;
  if (mark.empty())
    throw Error(cat("got a line of the ", is_source ? "source" : "target",
                    " without a mark of its language; expected one before it, such as >>",
                    vocab.language_codes().front(), "<<, or the option ", is_source ? kSource : kTarget));
  return mark + line;
}

}  // namespace fovea::translation
