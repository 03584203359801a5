#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Several processes that do one work together, such as a training. All of them make the same calls in the same order.
namespace fovea {

class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;  // of this process, from 0
  virtual int size() const = 0;  // how many there are
  virtual std::string host() const = 0;

  // Replaces the values, as many in each process, by their sums. They are added in the order of the ranks, so the sums
  // are those of one process that adds the same values one after the other, to the bit.
  virtual void sum(std::span<float> values) = 0;
  // The bytes of every process, in the order of the ranks.
  virtual std::vector<std::string> gather(std::string_view bytes) = 0;
  // Replaces the bytes, as many in each process, by those of process 0.
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  // The last call. A process that ends without it ends all others with an error.
  virtual void finish() = 0;
};

// One process by itself.
Collective& alone();

// How many processes a launcher (mpirun, srun) started as one work, and the number of this one: by the variables that
// it sets. 1 and 0 without a launcher.
int launched_processes();
int launched_rank();

// The processes that the launcher started; alone() if there is one. Loads lib/libfovea_mpi.so. Throws a UsageError if
// this build has none, or if it is of another MPI than the launcher.
Collective& launched();

}  // namespace fovea
