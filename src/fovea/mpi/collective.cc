// The processes of an MPI job. This library alone knows MPI: the program loads it when a launcher started several
// processes (base/collective.h).
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "fovea/base/collective.h"

namespace {

bool is_finished = false;

// A process that ends early must not leave the others waiting.
void end_unfinished() {
  if (!is_finished) MPI_Abort(MPI_COMM_WORLD, 1);
}

class MpiCollective : public fovea::Collective {
 public:
  MpiCollective() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    (void)std::atexit(end_unfinished);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host() const override {
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int length = 0;
    MPI_Get_processor_name(name.data(), &length);
    return {name.data(), static_cast<size_t>(length)};
  }

  void sum(std::span<float> values) override {
    for (size_t begin = 0; begin < values.size(); begin += kBlock)
      sum_block(values.subspan(begin, std::min(kBlock, values.size() - begin)));
  }

  std::vector<std::string> gather(std::string_view bytes) override {
    std::vector<int64_t> sizes(static_cast<size_t>(size_));
    const auto own = static_cast<int64_t>(bytes.size());
    MPI_Allgather(&own, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, MPI_COMM_WORLD);
    const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    return total <= int64_t{kMessage} ? gather_at_once(bytes, sizes) : gather_in_turn(bytes, sizes);
  }

  void broadcast(std::span<std::byte> bytes) override { broadcast_from(0, bytes); }

  void finish() override {
    is_finished = true;
    MPI_Finalize();
  }

 private:
  static constexpr size_t kBlock = size_t{1} << 24;    // floats that are summed at a time
  static constexpr size_t kMessage = size_t{1} << 30;  // bytes of one message: MPI counts in int

  // One exchange, which many processes do in few steps.
  static std::vector<std::string> gather_at_once(std::string_view bytes, const std::vector<int64_t>& sizes) {
    std::vector<int> counts(sizes.begin(), sizes.end()), places(sizes.size());
    std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
    std::string received(static_cast<size_t>(places.back() + counts.back()), '\0');
    MPI_Allgatherv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, received.data(), counts.data(),
                   places.data(), MPI_BYTE, MPI_COMM_WORLD);
    std::vector<std::string> all;
    for (size_t from = 0; from < sizes.size(); ++from)
      all.push_back(received.substr(static_cast<size_t>(places[from]), static_cast<size_t>(counts[from])));
    return all;
  }

  std::vector<std::string> gather_in_turn(std::string_view bytes, const std::vector<int64_t>& sizes) const {
    std::vector<std::string> all;
    for (int from = 0; from < size_; ++from) {
      std::string& text = all.emplace_back(static_cast<size_t>(sizes[static_cast<size_t>(from)]), '\0');
      if (from == rank_) text = bytes;
      broadcast_from(from, {reinterpret_cast<std::byte*>(text.data()), text.size()});
    }
    return all;
  }

  static void broadcast_from(int root, std::span<std::byte> bytes) {
    for (size_t begin = 0; begin < bytes.size(); begin += kMessage) {
      const std::span<std::byte> part = bytes.subspan(begin, std::min(kMessage, bytes.size() - begin));
      MPI_Bcast(part.data(), static_cast<int>(part.size()), MPI_BYTE, root, MPI_COMM_WORLD);
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
    MPI_Alltoallv(values.data(), counts.data(), places.data(), MPI_FLOAT, received_.data(), own_counts.data(),
                  own_places.data(), MPI_FLOAT, MPI_COMM_WORLD);
    for (size_t process = 1; process < processes; ++process)
      for (size_t i = 0; i < own; ++i) received_[i] += received_[process * own + i];
    MPI_Allgatherv(received_.data(), static_cast<int>(own), MPI_FLOAT, values.data(), counts.data(), places.data(),
                   MPI_FLOAT, MPI_COMM_WORLD);
  }

  int rank_ = 0, size_ = 1;
  std::vector<float> received_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) fovea::Collective* fovea_mpi() {
  static MpiCollective processes;
  return &processes;
}
