#include "fovea/serve/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fovea/base/file.h"
#include "fovea/base/log.h"
#include "fovea/base/rng.h"
#include "fovea/base/test_folder.h"
#include "fovea/serve/test_server.h"

namespace fovea::serve::server_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The log of the lines above `level` that a test reads goes to a file.
class LogFile {
 public:
  explicit LogFile(log::Level level) { log::configure({.level = level, .file = folder_ / "log"}); }
  ~LogFile() { log::configure({.level = log::Level::kError, .file = {}}); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  std::string text() const { return read_file(folder_ / "log"); }

 private:
  TestFolder folder_;
};

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override { log::configure({.level = log::Level::kError, .file = {}}); }
};

// A client that does one of many things, whole or not.
void visit(int port, Rng& rng) {
  const std::string n = std::to_string(rng.below(1000));
  const std::string text = cat(R"({"text": "one two )", n, R"(", "alignment": true})");
  const std::string completion = cat(R"({"model": "lm", "prompt": ")", n, R"(", "max_tokens": 40, "n": 3, "stream": )",
                                     rng.below(2) == 0 ? "true" : "false", "}");
  switch (rng.below(9)) {
    case 0:
      EXPECT_THAT(posted(port, "/translate", text), HasSubstr(cat("\"text\":\"[one two ", n, "]\"")));
      break;
    case 1:
      EXPECT_THAT(posted(port, "/translate", cat(R"({"q": "Hi )", n, R"(", "source": "en", "target": "de"})")),
                  HasSubstr(cat(R"({"translatedText":"[Hi )", n, "]\"}")));
      break;
    case 2: {  // leaves behind a whole request
      const Client client(port);
      client.send(request_text("POST", "/v1/completions", completion));
      break;
    }
    case 3: {  // leaves within a request
      const Client client(port);
      client.send(request_text("POST", "/translate", text).substr(0, rng.below(180)));
      break;
    }
    case 4: {  // leaves within a stream
      Client client(port);
      client.send(request_text("POST", "/v1/completions",
                               R"({"model": "lm", "prompt": "x", "max_tokens": 4000, "stream": true})"));
      EXPECT_THAT(client.read_until("data: "), HasSubstr("200 OK"));
      break;
    }
    case 5: {  // several requests behind one another
      Client client(port);
      const std::string request = request_text("POST", "/translate", text);
      client.send(request + request_text("GET", "/health", "") + request);
      for (const char* const expected : {"[one two ", "\"ok\"", "[one two "})
        EXPECT_THAT(client.answer(), HasSubstr(expected));
      break;
    }
    case 6: {  // a whole text
      Client client(port);
      client.send(request_text("POST", "/v1/completions", completion));
      const bool streams = completion.find("true") != std::string::npos;
      const std::string answer = streams ? client.read_until("[DONE]") : client.answer();
      EXPECT_THAT(answer, HasSubstr(streams ? "[DONE]" : "abcdefghijklmnopqrstuvwxyzabcdefghijklmn"));
      break;
    }
    case 7: {
      const std::string made = posted(
          port, "/v2/glossaries",
          R"({"name": "g", "source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"})");
      const size_t id = made.find("glossary_id\":\"");
      ASSERT_NE(id, std::string::npos) << made;
      const std::string path = "/v2/glossaries/" + made.substr(id + 14, 36);
      EXPECT_EQ(status_of(asked(port, request_text("GET", path + "/entries", ""))), 200);
      EXPECT_EQ(status_of(asked(port, request_text("DELETE", path, ""))), 204);
      break;
    }
    default:
      EXPECT_EQ(status_of(posted(port, "/translate", R"({"text": "refused"})")), 400);
      EXPECT_EQ(status_of(asked(port, request_text("GET", "/metrics", ""))), 200);
  }
}

// Run under ThreadSanitizer by ./fovea.sh tsan.
TEST_F(ServerTest, ClientsComeGoAndCancel) {
  constexpr int kClients = 6, kVisits = 40;
  ServeOptions options = test_options();
  options.mini_batch = 16;
  options.max_glossaries = 1000;
  ServerRig rig(options);
  wait_until_ready(rig);
  std::vector<std::thread> clients;
  std::atomic<int> open = kClients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      Rng rng(7, static_cast<uint64_t>(c));
      for (int visits = 0; visits < kVisits; ++visits) visit(rig.port(), rng);
      --open;
    });
  }
  int reloads = 0;
  while (open > 0) {
    if (reloads < 20) rig.routes().reload(), ++reloads;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(in_time([&] { return metric(rig.port(), "running") == 0 && metric(rig.port(), "queue_tokens") == 0; }));
  EXPECT_GT(metric(rig.port(), "cancelled_total"), 0);
  EXPECT_GT(metric(rig.port(), "reloads_total"), 0);
}

TEST_F(ServerTest, StopsBehindTheOpenRequests) {
  auto rig = std::make_unique<ServerRig>();
  wait_until_ready(*rig);
  Client client(rig->port());
  client.send(request_text("POST", "/v1/completions", R"({"model": "lm", "prompt": "", "max_tokens": 3000})"));
  EXPECT_TRUE(
      in_time([&] { return metric(rig->port(), "running") == 1 || metric(rig->port(), "sentences_total") == 1; }));
  rig->stop();
  EXPECT_THAT(client.answer(), HasSubstr("\"completion_tokens\":3000"));
}

TEST_F(ServerTest, AFailureOfAModelIsTold) {
  ServerRig rig;
  wait_until_ready(rig);
  EXPECT_THAT(posted(rig.port(), "/translate", R"({"text": ["fine", "refused"]})"),
              HasSubstr("the fake engine refuses"));
}

// RFC 9112, 3.2.
TEST_F(ServerTest, Http11NeedsOneHost) {
  const ServerRig rig;
  for (const auto& [head, status] : {std::pair("GET /health HTTP/1.1\r\n\r\n", 400),
                                     {"GET /health HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
                                     {"GET http://a/health HTTP/1.1\r\n\r\n", 400},
                                     {"GET /health HTTP/1.1\r\nHost:\r\n\r\n", 200},
                                     {"GET /health HTTP/1.1\r\nhost: a\r\n\r\n", 200},
                                     {"GET /health HTTP/1.0\r\n\r\n", 200}})
    EXPECT_EQ(status_of(asked(rig.port(), head)), status) << head;
  EXPECT_THAT(asked(rig.port(), "GET /health HTTP/1.1\r\n\r\n"), HasSubstr("Host: got no such header"));
}

TEST_F(ServerTest, ARefusedConnectionTookNoTime) {
  ServeOptions options = test_options();
  options.max_connections = 1;
  const LogFile log(log::Level::kInfo);
  ServerRig rig(options);
  {
    Client first(rig.port());
    first.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(status_of(first.answer()), 200);
    Client second(rig.port());
    const std::string refused = second.answer();
    EXPECT_EQ(status_of(refused), 503);
    EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
    first.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const std::string page = first.answer();
    const size_t sum = page.find("fovea_request_seconds_sum ");
    ASSERT_NE(sum, std::string::npos) << page;
    EXPECT_LT(std::stod(page.substr(sum + 26)), 60);
    EXPECT_THAT(page, HasSubstr("fovea_request_seconds_count 2"));
  }
  const std::string lines = log.text();
  const size_t told = lines.find(" 503 in ");
  ASSERT_NE(told, std::string::npos) << lines;
  EXPECT_LT(std::stod(lines.substr(told + 8)), 60'000);
}

// Heads that promise a body and send none: 140 of 2 MiB are more than the memory for all bodies.
TEST_F(ServerTest, OpenBodiesTakeNoRoomBeforeTheyCome) {
  ServerRig rig;
  wait_until_ready(rig);
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 280; ++i) {
    slow.push_back(std::make_unique<Client>(rig.port()));
    slow.back()->send(cat("POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
                          i % 2 == 0 ? "Transfer-Encoding: chunked" : "Content-Length: 2000000", "\r\n\r\n"));
  }
  EXPECT_EQ(status_of(posted(rig.port(), "/translate", R"({"text": "one"})")), 200);
  slow.front()->send("e\r\n{\"text\": \"one\"\r\n1\r\n}\r\n0\r\n\r\n");
  EXPECT_EQ(status_of(slow.front()->answer()), 200);
}

// Bodies without a key in the head share half of the memory, so that clients with a key keep the other half.
TEST_F(ServerTest, BodiesWithoutAKeyLeaveRoomForThoseWithOne) {
  const TestFolder folder;
  write_file(folder / "keys", "k\n");
  ServeOptions options = test_options();
  options.max_body = 8 << 20;
  ServerRig rig(options, ApiKeys(folder / "keys"));
  wait_until_ready(rig);
  const auto small = [&](const std::string& header) {
    return status_of(
        posted(rig.port(), "/translate", R"({"q": "one", "source": "en", "target": "de", "api_key": "k"})", header));
  };
  EXPECT_EQ(small(""), 200);
  {
    std::vector<std::unique_ptr<Client>> clients;
    const std::string most(size_t{8} << 20, ' ');
    const auto hold = [&] {
      clients.push_back(std::make_unique<Client>(rig.port()));
      clients.back()->send(cat("POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n",
                               "Content-Length: ", most.size(), "\r\n\r\n"));
      clients.back()->send(std::string_view(most).substr(1));
    };
    // Bodies that reach the limit together are all refused and give their memory back, so others take their places.
    EXPECT_TRUE(in_time([&] {
      const bool is_full = small("") == 503;
      if (!is_full) hold();
      return is_full;
    }));
    EXPECT_EQ(small("X-API-Key: k\r\n"), 200);
  }
  EXPECT_TRUE(in_time([&] { return small("") == 200; }));
}

TEST_F(ServerTest, PagesOfOtherNamesMayNotUseIt) {
  ServeOptions options = test_options();
  options.allow_host = {"Translate.example.org"};
  ServerRig rig(options);
  wait_until_ready(rig);
  const auto status = [&](const std::string& host, const std::string& origin) {
    const std::string body = R"({"text": "one"})";
    return status_of(asked(
        rig.port(), cat("POST /translate HTTP/1.1\r\nHost: ", host, "\r\nOrigin: ", origin,
                        "\r\nContent-Type: application/json\r\nContent-Length: ", body.size(), "\r\n\r\n", body)));
  };
  for (const char* const own : {"127.0.0.1:8080", "localhost:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "[::1]",
                                "192.168.0.7:80", "translate.example.org", "translate.example.org:8443"})
    EXPECT_EQ(status(own, cat("http://", own)), 200) << own;
  for (const char* const other : {"evil.example.org", "evil.example.org:8080", "localhost.example.org",
                                  "127.0.0.1.nip.io", "1.2.3", "[x]", "", "xtranslate.example.org"})
    EXPECT_EQ(status(other, cat("http://", other)), 403) << other;
  EXPECT_EQ(status("localhost", "http://example.org"), 403);
  EXPECT_EQ(status("localhost", "null"), 403);
}

TEST_F(ServerTest, TheLogOfTextsHasNoKeys) {
  const TestFolder folder;
  write_file(folder / "keys", "right-key\n");
  ServeOptions options = test_options();
  options.log_texts = true;
  const LogFile log(log::Level::kInfo);
  {
    ServerRig rig(options, ApiKeys(folder / "keys"));
    wait_until_ready(rig);
    const auto post = [&](const std::string& body, const std::string& type = "application/json") {
      return status_of(asked(rig.port(), request_text("POST", "/translate", body, "", type)));
    };
    const std::string rest = R"("q": "secret text", "source": "en", "target": "de"})";
    EXPECT_EQ(post(R"({"api_key": "right-key", )" + rest), 200);
    EXPECT_EQ(post(R"({"api_key": "wrong-key", )" + rest), 403);
    EXPECT_EQ(post(R"({"api_key": "right\u002dkey", "note": "right-key", )" + rest), 200);
    EXPECT_EQ(post("q=form+text&api_key=right%2Dkey&source=en&target=de", "application/x-www-form-urlencoded"), 200);
    EXPECT_EQ(post("{\"api_key\": \"wrong-key\", \"q\": \"cut"), 400);
    EXPECT_EQ(status_of(asked(rig.port(), request_text("POST", "/translate?api_key=right-key", "{" + rest))), 200);
  }
  const std::string lines = log.text();
  EXPECT_THAT(lines, HasSubstr("secret text"));
  EXPECT_THAT(lines, HasSubstr("form text"));
  EXPECT_THAT(lines, HasSubstr("bytes that has no fields"));
  EXPECT_THAT(lines, Not(HasSubstr("right-key")));
  EXPECT_THAT(lines, Not(HasSubstr("wrong-key")));
}

TEST_F(ServerTest, ListsWithoutATextAreRefused) {
  ServerRig rig;
  wait_until_ready(rig);
  for (const auto& [path, body] : {std::pair("/translate", R"({"text": []})"),
                                   {"/translate", R"({"q": [], "source": "en", "target": "de"})"},
                                   {"/v2/translate", R"({"text": [], "target_lang": "DE"})"}}) {
    const std::string answer = posted(rig.port(), path, body);
    EXPECT_EQ(status_of(answer), 400) << body;
    EXPECT_THAT(answer, HasSubstr("got an empty list; expected a text or a list of texts")) << body;
  }
}

TEST_F(ServerTest, TakesFormsInParts) {
  ServerRig rig;
  wait_until_ready(rig);
  const auto field = [](const std::string& name, const std::string& value) {
    return cat("--b\r\nContent-Disposition: form-data; name=\"", name, "\"\r\n\r\n", value, "\r\n");
  };
  const std::string body =
      field("q", "Hello") + field("source", "en") + field("target", "de") + field("alternatives", "1") + "--b--\r\n";
  const auto post = [&](const std::string& sent) {
    return asked(rig.port(), request_text("POST", "/translate", sent, "", "multipart/form-data; boundary=b"));
  };
  EXPECT_THAT(post(body), HasSubstr("\"translatedText\":\"[Hello]\""));
  EXPECT_THAT(post(body.substr(0, body.size() - 6)), StartsWith("HTTP/1.1 400"));
}

TEST_F(ServerTest, SettingsOfSamplingWorkOrAreRefusedByName) {
  ServerRig rig;
  wait_until_ready(rig);
  const auto complete = [&](const std::string& setting) {
    return posted(rig.port(), "/v1/completions", R"({"model": "lm", "prompt": "x", "max_tokens": 2, )" + setting + "}");
  };
  for (const char* const known : {R"("top_k": 4)", R"("top_k": -1)", R"("min_p": 0)", R"("repetition_penalty": 1.0)",
                                  R"("ignore_eos": false)", R"("min_tokens": 0)", R"("stop": [])", R"("user": "me")"})
    EXPECT_EQ(status_of(complete(known)), 200) << known;
  for (const auto& [setting, name] : {std::pair(R"("top_k": -2)", "top_k"),
                                      {R"("top_k": 1.5)", "top_k"},
                                      {R"("min_p": 0.1)", "min_p"},
                                      {R"("repetition_penalty": 1.2)", "repetition_penalty"},
                                      {R"("min_tokens": 3)", "min_tokens"},
                                      {R"("ignore_eos": true)", "ignore_eos"},
                                      {R"("grammar": "x")", "grammar"}}) {
    const std::string answer = complete(setting);
    EXPECT_EQ(status_of(answer), 400) << setting;
    EXPECT_THAT(answer, HasSubstr(cat("\"param\":\"", name, "\""))) << setting;
  }
}

}  // namespace
}  // namespace fovea::serve::server_test
