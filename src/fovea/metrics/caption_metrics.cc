#include "fovea/metrics/caption_metrics.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/child_process.h"
#include "fovea/base/error.h"
#include "fovea/base/strings.h"
#include "fovea/metrics/cider.h"
#include "fovea/metrics/coco_bleu.h"
#include "fovea/metrics/unicode.h"

namespace fovea::metrics {
namespace {

// METEOR 1.5 (Denkowski and Lavie 2014) of English, computed by its own program: `java -jar JAR`, with the options of
// COCO's evaluation of captions.
class Meteor {
 public:
  // Throws an Error if there is no Java.
  explicit Meteor(const std::string& jar);
  // The statistics of a segment, as the program prints them. Throws an Error if the program ends.
  std::string segment(std::string_view hypothesis, std::span<const std::string> references);
  // The score of these segments together, from 0 to 100. Throws an Error as above.
  double score(std::span<const std::string* const> segments);

 private:
  std::string answer();
  double number();  // an answer that is a number

  std::string jar_;
  ChildProcess process_;
};

// Text without the separator of METEOR's protocol.
std::string field_of_meteor(std::string_view text) {
  constexpr std::string_view kSeparator = "|||";
  std::string field;
  for (;;) {
    const size_t end = text.find(kSeparator);
    field += text.substr(0, end);
    if (end == std::string_view::npos) return field;
    text.remove_prefix(end + kSeparator.size());
  }
}

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

// The base of the metrics of captions: absent references, and how many there are.
class CaptionMetric : public Metric {
 public:
  explicit CaptionMetric(bool lowercase) : lowercase_(lowercase) {}

  std::string signature(size_t /*references*/) const override {
    const std::string count = least_ == most_ ? cat(most_) : "var";
    return cat("nrefs:", count, "|case:", lowercase_ ? "lc" : "mixed", "|tok:none");
  }

  void add(const std::string& hypothesis, std::span<const std::string> references) final {
    std::vector<std::string> present;
    for (const std::string& reference : references) {
      if (!strip(decode_utf8(reference)).empty()) present.push_back(reference);
    }
    ++segments_;
    if (present.empty())
      throw Error(cat(name(), ": line ", thousands(segments_),
                      " has no reference, only empty lines; expected at least ", "one"));
    least_ = segments_ == 1 ? present.size() : std::min(least_, present.size());
    most_ = std::max(most_, present.size());
    add_present(hypothesis, present);
  }

 protected:
  virtual void add_present(const std::string& hypothesis, std::span<const std::string> references) = 0;
  bool lowercase() const { return lowercase_; }

 private:
  bool lowercase_;
  int64_t segments_ = 0;
  size_t least_ = 0, most_ = 0;  // references of a segment
};

class CocoBleuMetric : public CaptionMetric {
 public:
  explicit CocoBleuMetric(bool lowercase)
      : CaptionMetric(lowercase), counter_({.tokenize = "none", .lowercase = lowercase}) {}
  std::string name() const override { return "COCO-BLEU"; }
  MetricScore score(const std::vector<uint32_t>& segments) const override {
    BleuStats total;
    for (const uint32_t segment : segments) total += stats_[segment];
    const CocoBleuScore score = coco_bleu(total);
    return {score.bleu.back(), score.verbose(), {}};
  }

 private:
  void add_present(const std::string& hypothesis, std::span<const std::string> references) override {
    stats_.push_back(counter_.segment(hypothesis, references));
  }
  Bleu counter_;
  std::vector<BleuStats> stats_;
};

// N-grams are weighted by all images, whichever are scored.
class CiderMetric : public CaptionMetric {
 public:
  explicit CiderMetric(bool lowercase) : CaptionMetric(lowercase), cider_(lowercase) {}
  std::string name() const override { return "CIDEr"; }
  MetricScore score(const std::vector<uint32_t>& segments) const override {
    std::call_once(scored_, [&] { scores_ = cider_.scores(); });
    double sum = 0;
    for (const uint32_t segment : segments) sum += scores_[segment];
    return {sum / static_cast<double>(segments.size()), {}, {}};
  }

 private:
  void add_present(const std::string& hypothesis, std::span<const std::string> references) override {
    cider_.add(hypothesis, references);
  }
  Cider cider_;
  mutable std::once_flag scored_;
  mutable std::vector<double> scores_;  // of each image, once all are added
};

class MeteorMetric : public CaptionMetric {
 public:
  MeteorMetric(bool lowercase, std::string jar) : CaptionMetric(lowercase), jar_(std::move(jar)) {}
  std::string name() const override { return "METEOR"; }
  std::string signature(size_t references) const override {
    return cat(CaptionMetric::signature(references), "|lang:en|norm:yes");
  }
  MetricScore score(const std::vector<uint32_t>& segments) const override {
    std::vector<const std::string*> chosen;
    for (const uint32_t segment : segments) chosen.push_back(&stats_[segment]);
    return {meteor_->score(chosen), {}, {}};
  }

 private:
  void add_present(const std::string& hypothesis, std::span<const std::string> references) override {
    if (!meteor_) meteor_ = std::make_unique<Meteor>(jar_);
    stats_.push_back(meteor_->segment(hypothesis, references));  // METEOR ignores case itself
  }
  std::string jar_;
  std::unique_ptr<Meteor> meteor_;  // begins with the first segment
  std::vector<std::string> stats_;
};

}  // namespace

std::unique_ptr<Metric> make_coco_bleu(const EvaluateOptions& options) {
  return std::make_unique<CocoBleuMetric>(options.lowercase);
}

std::unique_ptr<Metric> make_cider(const EvaluateOptions& options) {
  return std::make_unique<CiderMetric>(options.lowercase);
}

std::unique_ptr<Metric> make_meteor(const EvaluateOptions& options) {
  return std::make_unique<MeteorMetric>(options.lowercase, options.meteor_jar);
}

}  // namespace fovea::metrics
