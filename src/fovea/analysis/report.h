#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/analysis/plot.h"

// Reports of attention: one HTML file that holds tokens, weights and statistics, and needs no network.
namespace fovea::analysis {

// Weights of one attention for one sentence, [heads, rows, columns].
struct HeadWeights {
  const float* data = nullptr;  // finite
  int64_t heads = 0, rows = 0, columns = 0;
  bool is_causal = false;  // square; row t has the columns up to t
  int64_t row_length(int64_t row) const { return is_causal ? row + 1 : columns; }
  const float* row(int64_t head, int64_t row) const { return data + (head * rows + row) * columns; }
  int64_t pairs() const;  // of a head: the sum of all row lengths
};

// A weight w is the byte round(levels sqrt(|w| / scale)), at least 1, plus 128 if w < 0. Only an exact zero is 0. The
// square root spends the levels where weights are small.
inline constexpr int kMostWeightLevels = 127, kFewWeightLevels = 47;

// Returns the scale of a head: 1 if its weights are in [-1, 1], else the greatest magnitude.
float weight_scale(const HeadWeights& weights, int64_t head);

// Appends the bytes of a head with kMostWeightLevels, row by row, without the pairs that a causal head does not have.
void append_weight_codes(const HeadWeights& weights, int64_t head, float scale, std::string& codes);

// Returns codes with kFewWeightLevels, which compress to about two thirds of the size.
std::string with_few_levels(const std::string& codes);

// Returns the bytes in zlib's format (RFC 1950), which browsers call "deflate".
std::string deflated(std::string_view bytes);

// Whose attention: the encoder's on itself, the decoder's on itself, the decoder's on the encoder.
enum class ReportSublayer : uint8_t { kEncoder, kDecoder, kCross };

// A text of a sentence, such as the source, under a heading.
struct ReportText {
  std::string heading, text;
};

// A line of the input, as all models of the report get it.
struct ReportSentence {
  int64_t line = 0;  // from 1
  std::vector<ReportText> texts;
};

// A sentence as one model reads it; labels are UTF-8. Row t of the decoder reads inputs[t] and predicts outputs[t].
struct ReportTokens {
  std::vector<std::string> source;  // none in language models
  std::vector<std::string> inputs, outputs;
  int64_t size() const { return static_cast<int64_t>(source.size() + inputs.size()); }
};

// The tokens in each cluster of a routed head, ascending.
struct ReportClusters {
  int64_t head = 0;  // from 0
  std::vector<std::vector<int64_t>> members;
};

// One attention in a pass over one sentence: weights [heads, rows, columns]. The decoder's weights on itself are square
// and exactly 0 above the diagonal.
struct ReportAttention {
  ReportSublayer sublayer = ReportSublayer::kCross;
  int64_t layer = 0;  // from 1
  HeadWeights weights;
  std::vector<ReportClusters> clusters;  // of its routed heads
  // The adaptive span of each head in tokens, of the model and not of the sentence; empty without any.
  std::vector<std::optional<double>> spans = {};
};

// The loss of the first model under several mechanisms, over the sentences of the report.
struct ReportSweep {
  struct Point {
    std::string spec;
    double loss = 0;  // nats per unit
  };
  std::string unit;  // "target token"
  int64_t units = 0;
  std::vector<Point> points;
  Plot plot;  // of one panel
};

// Figures of one head over all sentences of the report.
struct HeadFigures {
  int64_t rows = 0, null_rows = 0;  // null: every weight is exactly 0
  int64_t pairs = 0, zeros = 0;     // of a query and a key that does not come after it; exactly 0
  double entropy = 0;               // sum over the rows that are not null, in nats
  double information = 0;           // mutual information of row and column, times these rows, in nats
  void add(const HeadFigures& other);
  double zero_share() const { return pairs == 0 ? 0 : static_cast<double>(zeros) / static_cast<double>(pairs); }
  double null_share() const { return rows == 0 ? 0 : static_cast<double>(null_rows) / static_cast<double>(rows); }
  double mean_entropy() const { return rows == null_rows ? 0 : entropy / static_cast<double>(rows - null_rows); }
  double mean_information() const {
    return rows == null_rows ? 0 : information / static_cast<double>(rows - null_rows);
  }
};

// Returns the figures of head `head`. A row's entropy is that of its weights' magnitudes divided by their sum. The
// mutual information is the entropy of the mean of these rows less the mean of their entropies: 0 if all rows are the
// same, and greatest if each row has one column of its own.
HeadFigures figures_of(const HeadWeights& weights, int64_t head);

// The weights that a page can hold. Browsers take minutes for more.
inline constexpr int64_t kMostReportWeights = 100'000'000;

// Collects passes and writes the page: all sentences, then begin_model(), and for each sentence begin_pass() and add().
class Report {
 public:
  Report(std::string title, std::vector<ReportSentence> sentences);

  // A model of the report, or a model under another mechanism. `details` are facts such as its mechanisms.
  void begin_model(const std::string& name, const std::vector<ReportText>& details);
  // The model's pass over sentence `sentence`, from 0.
  void begin_pass(size_t sentence, const ReportTokens& tokens);
  // Throws an Error if the page would hold more than kMostReportWeights.
  void add(const ReportAttention& attention);
  // Marks clauses in that pass: for each source token, the lowest level whose clause begins with it, 0 for none. Marks
  // of several attentions are joined.
  void mark_clauses(const std::vector<int64_t>& levels);

  void set_sweep(ReportSweep sweep) { sweep_ = std::move(sweep); }

  // The whole page.
  std::string html() const;

 private:
  struct Attention {
    ReportSublayer sublayer;
    int64_t layer, heads, rows, columns;
    std::vector<float> scales;         // of each head
    std::vector<HeadFigures> figures;  // of each head
    std::vector<ReportClusters> clusters;
    std::vector<std::optional<double>> spans;
  };
  struct Pass {
    size_t sentence;
    ReportTokens tokens;
    std::vector<int64_t> clauses;  // [source], or empty
    std::vector<Attention> attentions;
    std::string codes;  // of all attentions
  };
  struct Model {
    std::string name;
    std::vector<ReportText> details;
    std::vector<Pass> passes;
  };
  struct Json;  // makes the JSON of the members above
  std::string data_json(int levels) const;

  std::string title_;
  std::vector<ReportSentence> sentences_;
  std::vector<Model> models_;
  std::optional<ReportSweep> sweep_;
  int64_t weights_ = 0;
};

}  // namespace fovea::analysis
