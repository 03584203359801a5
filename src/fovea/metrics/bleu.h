#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::metrics {

inline constexpr size_t kBleuOrder = 4;

// The version of sacreBLEU whose figures these are; it ends every signature.
inline constexpr std::string_view kSacrebleuVersion = "2.6.0";

struct BleuOptions {
  std::string tokenize = "13a";
  bool lowercase = false;
  std::string smooth_method = "exp";  // or floor, add-k, none
  double smooth_value = -1;           // of floor and add-k; below zero: their defaults, 0.1 and 1
  bool effective_order = false;       // for single sentences: leave out orders longer than the sentence
};

// What a segment adds to the corpus; sums of segments are corpora.
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
  // Of one hypothesis against its references, the closest reference's length counting.
  BleuStats segment(std::string_view hypothesis, std::span<const std::string> references) const;
  BleuScore score(const BleuStats& stats) const;
  std::string signature(size_t references) const;  // "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"

 private:
  BleuOptions options_;
};

// Corpus BLEU against one reference a line.
BleuScore corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::string> references,
                      const BleuOptions& options = {});

// BLEU of text that is tokenised already, as Moses' multi-bleu script gives it: words apart by ASCII white space,
// no smoothing.
BleuStats multi_bleu_segment(std::string_view hypothesis, std::span<const std::string> references, bool lowercase);
BleuScore multi_bleu(const BleuStats& stats);
// "BLEU = 27.31, 60.1/33.3/20.9/13.4 (BP=0.998, ratio=0.998, hyp_len=1000, ref_len=1002)"
std::string multi_bleu_line(const BleuScore& score);

}  // namespace fovea::metrics
