#include "fovea/serve/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea::serve::connection_test {
namespace {

struct Answering final : Service {
  size_t body_limit(const Request& /*head*/) const override { return 100; }
  Response quick_answer(const Request& /*head*/) override { return {.status = 0}; }
  bool has_key(const Request& /*head*/) const override { return true; }
  void handle(std::shared_ptr<Exchange> exchange) override { exchange->answer({.body = "done"}); }
  Response refusal(const Request& /*request*/, int status, const std::string& /*message*/) const override {
    return {.status = status};
  }
  std::vector<Header> common_headers(const Request& /*request*/) const override { return {}; }
  void finished(const Request& /*request*/, int /*status*/, double /*seconds*/) override {}
  void reload() override {}
  std::string new_id() override { return "id"; }
};

// A timer of a closed connection would keep the connection, and its event loop busy.
TEST(Connection, IsGoneWhenItsClientIs) {
  for (const std::string_view sent :
       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", "GET / HT", "",
        "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    boost::asio::io_context context{1};
    Connection::Tcp::socket socket(context);
    socket.assign(Connection::Tcp::v4(), ends[0]);
    const ServerOptions options;
    BodyRoom room;
    Answering service;
    int closed = 0;
    const auto connection = std::make_shared<Connection>(std::move(socket), options, service, room,
                                                         [&](const auto& /*which*/) { ++closed; });
    connection->start();
    ASSERT_EQ(::write(ends[1], sent.data(), sent.size()), std::ssize(sent));
    shutdown(ends[1], SHUT_WR);
    context.run_for(std::chrono::seconds(10));
    EXPECT_TRUE(context.stopped()) << sent;
    EXPECT_EQ(closed, 1) << sent;
    EXPECT_EQ(connection.use_count(), 1) << sent;
    EXPECT_EQ(room.used, 0U) << sent;
    ::close(ends[1]);
  }
}

}  // namespace
}  // namespace fovea::serve::connection_test
