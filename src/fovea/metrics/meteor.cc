#include "fovea/metrics/meteor.h"

#include <charconv>

#include "fovea/base/error.h"
#include "fovea/base/strings.h"

namespace fovea::metrics {
namespace {

// Text without the separator of METEOR's protocol.
std::string field_of_meteor(std::string_view text) {
  std::string field(text);
  for (size_t at = field.find("|||"); at != std::string::npos; at = field.find("|||", at)) field.erase(at, 3);
  return field;
}

}  // namespace

Meteor::Meteor(const std::string& jar)
    : jar_(jar),
      process_({"java", "-jar", "-Xmx2G", jar, "-", "-", "-stdio", "-l", "en", "-norm"},
               "--meteor-jar: METEOR needs Java (Debian's default-jre-headless)") {}

std::string Meteor::answer() {
  std::string line;
  if (!process_.read_line(line))
    throw Error(cat("--meteor-jar: '", jar_, "' ended without an answer; expected meteor-1.5.jar with its data; run ",
                    "java -jar on it to see its message"));
  return line;
}

double Meteor::number() {
  const std::string text = answer();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc()) return value;
  throw Error(cat("--meteor-jar: '", jar_, "' answered '", text.substr(0, 40), "'; expected a score; use METEOR 1.5"));
}

std::string Meteor::segment(std::string_view hypothesis, std::span<const std::string> references) {
  std::string line = "SCORE";
  for (const std::string& reference : references) line += cat(" ||| ", field_of_meteor(reference));
  process_.write_line(cat(line, " ||| ", field_of_meteor(hypothesis)));
  return answer();
}

double Meteor::score(std::span<const std::string* const> segments) {
  std::string line = "EVAL";
  for (const std::string* segment : segments) line += cat(" ||| ", *segment);
  process_.write_line(line);
  double last = 0;
  for (size_t i = 0; i <= segments.size(); ++i) last = number();  // the score of each, then that of all
  return 100 * last;
}

}  // namespace fovea::metrics
