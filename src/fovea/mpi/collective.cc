// The processes of an MPI job. This library alone knows MPI: the program loads it when a launcher started several
// processes (base/collective.h).
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>

#include "fovea/base/collective.h"

namespace {

bool is_finished = false;

// A process that ends early must not leave the others waiting.
void end_unfinished() {
  if (!is_finished) MPI_Abort(MPI_COMM_WORLD, 1);
}

std::string host_of_this() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  return {name.data(), static_cast<size_t>(length)};
}

// When a process that waits names the others, and how.
struct Patience {
  double seconds = 60;
  void (*say)(const char* line) = nullptr;
};
Patience patience;

// Waits for exchanges, which all processes begin in the same order, and names a process that does not take part. A
// process that has waited for the patience tells all others so, in messages beside the exchanges; a little later the
// first waiting process names the rest.
class Exchanges {
 public:
  Exchanges() {
    MPI_Comm_dup(MPI_COMM_WORLD, &beside_);
    MPI_Comm_rank(beside_, &rank_);
    MPI_Comm_size(beside_, &size_);
    waits_at_.resize(static_cast<size_t>(size_), 0);
    hosts_.resize(static_cast<size_t>(size_) * kHostBytes);
    std::string own = host_of_this();
    own.resize(kHostBytes - 1);
    own.push_back('\0');
    MPI_Allgather(own.data(), kHostBytes, MPI_CHAR, hosts_.data(), kHostBytes, MPI_CHAR, beside_);
  }

  // Returns when the exchange is done.
  void wait_for(MPI_Request exchange) {
    ++number_;
    const auto seconds_since = [](Clock::time_point start) {
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    const Clock::time_point start = Clock::now();
    std::optional<Clock::time_point> told;
    bool has_named = false;
    for (int is_done = 0;;) {
      MPI_Test(&exchange, &is_done, MPI_STATUS_IGNORE);
      if (is_done != 0) return;
      if (seconds_since(start) < patience.seconds) continue;
      if (!told) {
        tell_others();
        told = Clock::now();
      }
      receive();
      // The messages of the others take some time, also to a process that was stopped itself.
      if (seconds_since(*told) < patience.seconds * kTimeOfMessages || has_named) continue;
      has_named = true;
      name_missing(seconds_since(start));
    }
  }

  // Takes the messages that are left; all processes call it.
  void finish() {
    MPI_Request all_here = MPI_REQUEST_NULL;
    MPI_Ibarrier(beside_, &all_here);
    wait_for(all_here);
    receive();
    for (Message& message : told_) MPI_Request_free(&message.request);
    MPI_Comm_free(&beside_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kHostBytes = 256;
  static constexpr double kTimeOfMessages = 0.1;
  struct Message {
    int64_t exchange;
    MPI_Request request;
  };

  void tell_others() {
    waits_at_[static_cast<size_t>(rank_)] = number_;
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) continue;
      Message& message = told_.emplace_back(Message{number_, MPI_REQUEST_NULL});
      MPI_Isend(&message.exchange, 1, MPI_INT64_T, other, 0, beside_, &message.request);
    }
  }

  void receive() {
    for (;;) {
      int is_there = 0;
      MPI_Status status;
      MPI_Iprobe(MPI_ANY_SOURCE, 0, beside_, &is_there, &status);
      if (is_there == 0) return;
      MPI_Recv(&waits_at_[static_cast<size_t>(status.MPI_SOURCE)], 1, MPI_INT64_T, status.MPI_SOURCE, 0, beside_,
               MPI_STATUS_IGNORE);
    }
  }

  void name_missing(double seconds) const {
    // An exchange may be done for another process, which waits for a later one.
    const auto waits = [&](int64_t exchange) { return exchange >= number_; };
    if (std::ranges::find_if(waits_at_, waits) - waits_at_.begin() != rank_) return;
    std::string line = "waited " + std::to_string(static_cast<int64_t>(seconds)) + " seconds for";
    for (size_t other = 0; other < waits_at_.size(); ++other) {
      if (waits(waits_at_[other])) continue;
      line += " process " + std::to_string(other) + " of " + std::to_string(size_) + " on " +
              &hosts_[other * kHostBytes] + ",";
    }
    line += " which may be saving or validating, or hangs";
    if (patience.say != nullptr) patience.say(line.c_str());
  }

  MPI_Comm beside_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  int64_t number_ = 0;             // of this exchange
  std::vector<int64_t> waits_at_;  // the exchange for which each process last said that it waits
  std::vector<char> hosts_;
  std::deque<Message> told_;  // they keep their places until they are sent
};

class MpiCollective : public fovea::Collective {
 public:
  MpiCollective() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    exchanges_.emplace();
    (void)std::atexit(end_unfinished);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host() const override { return host_of_this(); }

  void sum(std::span<float> values) override {
    for (size_t begin = 0; begin < values.size(); begin += kBlock)
      sum_block(values.subspan(begin, std::min(kBlock, values.size() - begin)));
  }

  std::vector<std::string> gather(std::string_view bytes) override {
    std::vector<int64_t> sizes(static_cast<size_t>(size_));
    const auto own = static_cast<int64_t>(bytes.size());
    exchange([&](MPI_Request* request) {
      MPI_Iallgather(&own, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, MPI_COMM_WORLD, request);
    });
    const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    return total <= int64_t{kMessage} ? gather_at_once(bytes, sizes) : gather_in_turn(bytes, sizes);
  }

  void broadcast(std::span<std::byte> bytes) override { broadcast_from(0, bytes); }

  void finish() override {
    exchanges_->finish();
    is_finished = true;
    MPI_Finalize();
  }

 private:
  static constexpr size_t kBlock = size_t{1} << 24;    // floats that are summed at a time
  static constexpr size_t kMessage = size_t{1} << 30;  // bytes of one message: MPI counts in int

  template <class Begin>
  void exchange(const Begin& begin) {
    MPI_Request request = MPI_REQUEST_NULL;
    begin(&request);
    exchanges_->wait_for(request);
  }

  // One exchange, which many processes do in few steps.
  std::vector<std::string> gather_at_once(std::string_view bytes, const std::vector<int64_t>& sizes) {
    std::vector<int> counts(sizes.begin(), sizes.end()), places(sizes.size());
    std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
    std::string received(static_cast<size_t>(places.back() + counts.back()), '\0');
    exchange([&](MPI_Request* request) {
      MPI_Iallgatherv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, received.data(), counts.data(),
                      places.data(), MPI_BYTE, MPI_COMM_WORLD, request);
    });
    std::vector<std::string> all;
    for (size_t from = 0; from < sizes.size(); ++from)
      all.push_back(received.substr(static_cast<size_t>(places[from]), static_cast<size_t>(counts[from])));
    return all;
  }

  std::vector<std::string> gather_in_turn(std::string_view bytes, const std::vector<int64_t>& sizes) {
    std::vector<std::string> all;
    for (int from = 0; from < size_; ++from) {
      std::string& text = all.emplace_back(static_cast<size_t>(sizes[static_cast<size_t>(from)]), '\0');
      if (from == rank_) text = bytes;
      broadcast_from(from, {reinterpret_cast<std::byte*>(text.data()), text.size()});
    }
    return all;
  }

  void broadcast_from(int root, std::span<std::byte> bytes) {
    for (size_t begin = 0; begin < bytes.size(); begin += kMessage) {
      const std::span<std::byte> part = bytes.subspan(begin, std::min(kMessage, bytes.size() - begin));
      exchange([&](MPI_Request* request) {
        MPI_Ibcast(part.data(), static_cast<int>(part.size()), MPI_BYTE, root, MPI_COMM_WORLD, request);
      });
    }
  }

  // Each process gets everybody's values of its own part, adds them in the order of the ranks, and sends the sums to
  // all: the bytes of a ring, in a fixed order of additions.
  void sum_block(std::span<float> values) {
    const auto processes = static_cast<size_t>(size_), me = static_cast<size_t>(rank_);
    const auto begin_of = [&](size_t process) { return values.size() * process / processes; };
    std::vector<int> counts, places, own_counts, own_places;
    const size_t own = begin_of(me + 1) - begin_of(me);
    for (size_t process = 0; process < processes; ++process) {
      counts.push_back(static_cast<int>(begin_of(process + 1) - begin_of(process)));
      places.push_back(static_cast<int>(begin_of(process)));
      own_counts.push_back(static_cast<int>(own));
      own_places.push_back(static_cast<int>(own * process));
    }
    received_.resize(own * processes);
    exchange([&](MPI_Request* request) {
      MPI_Ialltoallv(values.data(), counts.data(), places.data(), MPI_FLOAT, received_.data(), own_counts.data(),
                     own_places.data(), MPI_FLOAT, MPI_COMM_WORLD, request);
    });
    for (size_t process = 1; process < processes; ++process)
      for (size_t i = 0; i < own; ++i) received_[i] += received_[process * own + i];
    exchange([&](MPI_Request* request) {
      MPI_Iallgatherv(received_.data(), static_cast<int>(own), MPI_FLOAT, values.data(), counts.data(), places.data(),
                      MPI_FLOAT, MPI_COMM_WORLD, request);
    });
  }

  int rank_ = 0, size_ = 1;
  std::optional<Exchanges> exchanges_;  // once MPI is there
  std::vector<float> received_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void fovea_mpi_patience(double seconds, void (*say)(const char*)) {
  patience = {seconds, say};
}

extern "C" __attribute__((visibility("default"))) fovea::Collective* fovea_mpi() {
  static MpiCollective processes;
  return &processes;
}
