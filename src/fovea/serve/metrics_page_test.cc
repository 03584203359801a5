#include "fovea/serve/metrics_page.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/numbers.h"
#include "fovea/base/strings.h"

namespace fovea::serve::metrics_page_test {
namespace {

// The page as Prometheus reads it: values by name and labels, and the metrics' types.
struct Scraped {
  explicit Scraped(const std::string& page) {
    for (const std::string& line : split(trim(page), '\n')) {
      const std::vector<std::string> words = split_words(line);
      if (line.starts_with("# TYPE ")) {
        EXPECT_TRUE(types.emplace(words.at(2), words.at(3)).second) << line << " twice";
      }
      if (line.starts_with("#")) continue;
      const std::optional<double> number = number_in<double>(words.at(1));
      EXPECT_TRUE(words.size() == 2 && number) << line;
      EXPECT_TRUE(values.emplace(words[0], number.value_or(-1)).second) << line << " twice";
    }
  }
  double operator[](const std::string& name) const {
    const auto found = values.find(name);
    EXPECT_NE(found, values.end()) << name << " is missing";
    return found == values.end() ? -1 : found->second;
  }
  std::map<std::string, double> values;
  std::map<std::string, std::string> types;
};

TEST(Metrics, CountRequestsByDialectAndStatus) {
  Metrics metrics;
  metrics.count_request("deepl", 200, 1);
  metrics.count_request("deepl", 200, 1);
  metrics.count_request("deepl", 503, 1);
  metrics.count_request("openai", 200, 1);
  metrics.count_request("openai", 0, 1);  // its client left
  const Scraped page(metrics.page(0, 0, true));
  EXPECT_EQ(page[R"(fovea_requests_total{dialect="deepl",code="200"})"], 2);
  EXPECT_EQ(page[R"(fovea_requests_total{dialect="deepl",code="503"})"], 1);
  EXPECT_EQ(page[R"(fovea_requests_total{dialect="openai",code="200"})"], 1);
  EXPECT_EQ(page[R"(fovea_requests_total{dialect="openai",code="0"})"], 1);
  EXPECT_EQ(page["fovea_cancelled_total"], 1);
  EXPECT_EQ(page["fovea_request_seconds_count"], 5);
}

// A bucket counts the requests of at most its bound, so those of the buckets before it too.
TEST(Metrics, SecondsAreACumulativeHistogram) {
  Metrics metrics;
  for (const double seconds : {0.0, 0.25, 0.375, 1.0, 64.0}) metrics.count_request("own", 200, seconds);
  const Scraped page(metrics.page(0, 0, true));
  const auto bucket = [&](const char* bound) { return page[cat("fovea_request_seconds_bucket{le=\"", bound, "\"}")]; };
  EXPECT_EQ(page.types.at("fovea_request_seconds"), "histogram");
  EXPECT_EQ(bucket("0.005"), 1);
  EXPECT_EQ(bucket("0.1"), 1);
  EXPECT_EQ(bucket("0.25"), 2) << "the bound itself counts";
  EXPECT_EQ(bucket("0.5"), 3);
  EXPECT_EQ(bucket("1"), 4);
  EXPECT_EQ(bucket("60"), 4);
  EXPECT_EQ(bucket("+Inf"), 5);
  EXPECT_EQ(page["fovea_request_seconds_count"], 5);
  EXPECT_EQ(page["fovea_request_seconds_sum"], 65.625) << "exact: all are sums of powers of two";
}

TEST(Metrics, ShowWhatTheEngineAndTheQueueSay) {
  Metrics metrics;
  metrics.source_tokens = 1, metrics.target_tokens = 2, metrics.sentences = 3, metrics.rows = 4, metrics.running = 5;
  metrics.steps = 6, metrics.reloads = 7, metrics.failed_reloads = 8;
  const Scraped page(metrics.page(9, int64_t{10'000'000'000}, true));
  const std::map<std::string, double> counters = {{"source_tokens_total", 1}, {"target_tokens_total", 2},
                                                  {"sentences_total", 3},     {"steps_total", 6},
                                                  {"reloads_total", 7},       {"failed_reloads_total", 8}};
  const std::map<std::string, double> gauges = {
      {"rows", 4}, {"running", 5}, {"queue_sentences", 9}, {"queue_tokens", 1e10}, {"ready", 1}};
  for (const auto& [type, expected] : {std::pair("counter", counters), std::pair("gauge", gauges)}) {
    for (const auto& [name, value] : expected) {
      EXPECT_EQ(page["fovea_" + name], value);
      EXPECT_EQ(page.types.at("fovea_" + name), type) << name;
    }
  }
}

// More than a MiB, in bytes: a program with libtorch has tens of thousands of pages.
TEST(Metrics, KnowTheMemoryOfTheProcess) {
  EXPECT_GT(resident_bytes(), 1 << 20);
  EXPECT_GT(Scraped(Metrics().page(0, 0, false))["fovea_resident_memory_bytes"], 1 << 20);
}

}  // namespace
}  // namespace fovea::serve::metrics_page_test
