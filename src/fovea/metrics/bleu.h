#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::metrics {

inline constexpr size_t kBleuOrder = 4;

// The version of sacreBLEU whose figures these are; it ends every signature.
inline constexpr std::string_view kSacrebleuVersion = "2.6.0";

enum class Smoothing : uint8_t { kExp, kFloor, kAddK, kNone };

// The methods by which BLEU replaces a precision of zero, by sacreBLEU's names.
struct SmoothMethod {
  std::string_view name;
  Smoothing kind;
  std::optional<double> value;  // of the methods that have one: its default
};
inline constexpr std::array kSmoothMethods = {
    SmoothMethod{"exp", Smoothing::kExp, {}}, SmoothMethod{"floor", Smoothing::kFloor, 0.1},
    SmoothMethod{"add-k", Smoothing::kAddK, 1}, SmoothMethod{"none", Smoothing::kNone, {}}};
std::string_view smooth_choices();     // of --smooth-method: "exp|floor|..."
std::string_view smooth_value_help();  // of --smooth-value: the methods that have one, with their defaults

struct BleuOptions {
  std::string tokenize = "13a";
  bool lowercase = false;
  std::string smooth_method = "exp";  // a name of kSmoothMethods
  double smooth_value = -1;           // below zero: the method's default
  bool effective_order = false;       // for single sentences: leave out orders longer than the sentence
};

// The statistics of a segment; sums of segments are corpora.
struct BleuStats {
  int64_t hypothesis_length = 0, reference_length = 0;
  std::array<int64_t, kBleuOrder> correct{}, total{};
  BleuStats& operator+=(const BleuStats& other);
  bool operator==(const BleuStats&) const = default;
};

struct BleuScore {
  double score = 0;  // 0 to 100
  std::array<double, kBleuOrder> precisions{};
  double brevity_penalty = 1;
  int64_t hypothesis_length = 0, reference_length = 0;
  std::string verbose() const;  // "82.0/50.0/45.5/37.5 (BP = 0.943 ratio = 0.944 hyp_len = 17 ref_len = 18)"
};

// BLEU (Papineni et al. 2002) as sacreBLEU computes it (Post 2018).
class Bleu {
 public:
  explicit Bleu(BleuOptions options = {});
  // The statistics of one hypothesis against its references; the closest reference's length counts.
  BleuStats segment(std::string_view hypothesis, std::span<const std::string> references) const;
  BleuScore score(const BleuStats& stats) const;
  std::string signature(size_t references) const;  // "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"

 private:
  BleuOptions options_;
  SmoothMethod smooth_;  // with the value that is used
};

// Corpus BLEU against one reference per line.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::string> references,
                      const BleuOptions& options = {});

struct MultiBleuOptions {
  bool lowercase = false;
  // Splits words at hyphens on both sides, as scores of English-German are published: s/(\S)-(\S)/\1 ##AT##-##AT##
  // \2/g.
  bool compound_split = false;
};

// BLEU of text that is tokenised already, as Moses' multi-bleu script gives it: words apart by ASCII white space,
// no smoothing.
BleuStats multi_bleu_segment(std::string_view hypothesis, std::span<const std::string> references,
                             const MultiBleuOptions& options = {});
BleuScore multi_bleu(const BleuStats& stats);
std::string multi_bleu_signature(const MultiBleuOptions& options, size_t references);
// "BLEU = 27.31, 60.1/33.3/20.9/13.4 (BP=0.998, ratio=0.998, hyp_len=1000, ref_len=1002)"
std::string multi_bleu_line(const BleuScore& score, int width = 2);  // digits of the score

}  // namespace fovea::metrics
