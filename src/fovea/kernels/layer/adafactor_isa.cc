#include "fovea/kernels/layer/adafactor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "fovea/kernels/layer/at_level.h"
#include "fovea/kernels/layer/scratch.h"
// The level's own code from here on.
#include "fovea/kernels/simd/isa_begin-inl.h"

#include "fovea/kernels/layer/element-inl.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kElements = 1 << 14;  // of a piece of work, about
// Rows of a piece. With few rows, the float32 sums stay accurate; with many, the column sums of all pieces need little
// memory.
constexpr int64_t kLeastRows = 32, kMostRows = 512;
constexpr double kLeastSquare = 1e-30, kLeastScale = 1e-3;  // eps1 and eps2 of the paper

// One matrix of a parameter in this update. The pointers lead into scratch memory.
struct Matrix {
  const AdafactorTensor* tensor;
  int64_t index;                // of the parameter's matrices
  int64_t first_piece, pieces;  // in Run::pieces_
  float* row_factors;           // [rows]: mean squares of the gradient, then 1 / sqrt(row / mean(row))
  float* column_factors;        // [columns]: 1 / sqrt(column)
};

struct Piece {
  int64_t matrix;  // in Run::matrices_
  int64_t first_row, rows;
  float* column_sums;         // [columns], of g^2
  double param_squares = 0;   // sum
  double update_squares = 0;  // sum of u^2
};

class Run {
 public:
  Run(const AdafactorPass& job, Executor& executor) : job_(job), executor_(executor) {}

  void run() {
    plan();
    each_piece([this](Piece& piece) { sum_squares(piece); });
    executor_.run(std::ssize(matrices_), [this](int64_t m, int) { average(matrices_[static_cast<size_t>(m)]); });
    each_piece([this](Piece& piece) { sum_update(piece); });
    find_rates();
    each_piece([this](Piece& piece) { update(piece); });
  }

 private:
  template <class Work>
  void each_piece(Work&& work) {
    executor_.run(std::ssize(pieces_), [&](int64_t p, int) { work(pieces_[static_cast<size_t>(p)]); });
  }

  // Pieces depend on the shapes alone, so the order of every sum is fixed.
  void plan() {
    int64_t floats = 0;
    for (const AdafactorTensor& tensor : job_.tensors) {
      const int64_t rows = std::clamp(kElements / std::max<int64_t>(tensor.columns, 1), kLeastRows, kMostRows);
      for (int64_t index = 0; index < tensor.matrices; ++index) {
        const int64_t first = std::ssize(pieces_), matrix = std::ssize(matrices_);
        for (int64_t row = 0; row < tensor.rows; row += rows)
          pieces_.push_back({matrix, row, std::min(rows, tensor.rows - row), nullptr});
        matrices_.push_back({&tensor, index, first, std::ssize(pieces_) - first, nullptr, nullptr});
        floats += tensor.rows + tensor.columns * (matrices_.back().pieces + 1);
      }
    }
    float* free = thread_scratch(Use::kPartialSums).get<float>(floats);
    const auto take = [&](int64_t count) { return std::exchange(free, free + count); };
    for (Matrix& matrix : matrices_) {
      matrix.row_factors = take(matrix.tensor->rows);
      matrix.column_factors = take(matrix.tensor->columns);
      for (int64_t p = 0; p < matrix.pieces; ++p) piece_of(matrix, p).column_sums = take(matrix.tensor->columns);
    }
  }

  Piece& piece_of(const Matrix& matrix, int64_t p) { return pieces_[static_cast<size_t>(matrix.first_piece + p)]; }
  const Matrix& matrix_of(const Piece& piece) const { return matrices_[static_cast<size_t>(piece.matrix)]; }
  // The place in the parameter at which a row of the matrix begins.
  static int64_t place(const Matrix& matrix, int64_t row) {
    return (matrix.index * matrix.tensor->rows + row) * matrix.tensor->columns;
  }

  void sum_squares(Piece& piece) {
    const Matrix& matrix = matrix_of(piece);
    const int64_t columns = matrix.tensor->columns;
    std::fill_n(piece.column_sums, columns, 0.0F);
    const F scale = set(job_.grad_scale);
    for (int64_t row = piece.first_row; row < piece.first_row + piece.rows; ++row) {
      const float* grads = matrix.tensor->grads + place(matrix, row);
      F total = set(0);
      for (int64_t i = 0; i < columns; i += kLanes) {
        const F grad = load_some(grads + i, columns - i) * scale;
        total = fma(grad, grad, total);
        store_some(piece.column_sums + i, fma(grad, grad, load_some(piece.column_sums + i, columns - i)), columns - i);
      }
      matrix.row_factors[row] = sum(total) / static_cast<float>(columns);
      if (job_.relative) piece.param_squares += squares(matrix.tensor->params + place(matrix, row), columns);
    }
  }

  static double squares(const float* values, int64_t count) {
    F total = set(0);
    for (int64_t i = 0; i < count; i += kLanes) {
      const F value = load_some(values + i, count - i);
      total = fma(value, value, total);
    }
    return sum(total);
  }

  float moved(float before, double mean_square) const {
    const double fresh = job_.fresh;
    return static_cast<float>((1 - fresh) * before + fresh * (mean_square + kLeastSquare));
  }

  // The running means, and from them the factors of an update.
  void average(const Matrix& matrix) {
    const int64_t rows = matrix.tensor->rows, columns = matrix.tensor->columns;
    float* column = matrix.tensor->column + matrix.index * columns;
    for (int64_t i = 0; i < columns; ++i) {
      double total = 0;
      for (int64_t p = 0; p < matrix.pieces; ++p) total += piece_of(matrix, p).column_sums[i];
      column[i] = moved(column[i], total / static_cast<double>(rows));
      matrix.column_factors[i] = 1 / std::sqrt(column[i]);
    }
    if (matrix.tensor->row == nullptr) {
      matrix.row_factors[0] = 1;
      return;
    }
    float* row = matrix.tensor->row + matrix.index * rows;
    double total = 0;
    for (int64_t r = 0; r < rows; ++r) {
      row[r] = moved(row[r], matrix.row_factors[r]);
      total += row[r];
    }
    const double mean = total / static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) matrix.row_factors[r] = static_cast<float>(std::sqrt(mean / row[r]));
  }

  // u of kLanes elements.
  static F update_of(const float* grads, const float* column_factors, int64_t n, F row_factor) {
    return load_some(grads, n) * row_factor * load_some(column_factors, n);
  }

  void sum_update(Piece& piece) {
    const Matrix& matrix = matrix_of(piece);
    const int64_t columns = matrix.tensor->columns;
    for (int64_t row = piece.first_row; row < piece.first_row + piece.rows; ++row) {
      const float* grads = matrix.tensor->grads + place(matrix, row);
      const F factor = set(matrix.row_factors[row] * job_.grad_scale);
      F total = set(0);
      for (int64_t i = 0; i < columns; i += kLanes) {
        const F change = update_of(grads + i, matrix.column_factors + i, columns - i, factor);
        total = fma(change, change, total);
      }
      piece.update_squares += sum(total);
    }
  }

  // Finds the rate of each parameter, over all its matrices.
  void find_rates() {
    auto matrix = matrices_.begin();
    for (const AdafactorTensor& tensor : job_.tensors) {
      double params = 0, updates = 0;
      for (; matrix != matrices_.end() && matrix->tensor == &tensor; ++matrix) {
        for (int64_t p = 0; p < matrix->pieces; ++p) {
          params += piece_of(*matrix, p).param_squares;
          updates += piece_of(*matrix, p).update_squares;
        }
      }
      const auto count = static_cast<double>(tensor.matrices * tensor.rows * tensor.columns);
      double rate = job_.rate;
      if (job_.relative) rate *= std::max(kLeastScale, std::sqrt(params / count));
      if (job_.clip > 0) rate /= std::max(1.0, std::sqrt(updates / count) / job_.clip);
      rates_.push_back(static_cast<float>(rate));
    }
  }

  void update(Piece& piece) {
    const Matrix& matrix = matrix_of(piece);
    const AdafactorTensor& tensor = *matrix.tensor;
    const F rate = set(-rates_[static_cast<size_t>(&tensor - job_.tensors.data())]), stay = set(1 - job_.decay);
    for (int64_t row = piece.first_row; row < piece.first_row + piece.rows; ++row) {
      const int64_t begin = place(matrix, row);
      const F factor = set(matrix.row_factors[row] * job_.grad_scale);
      for (int64_t i = 0; i < tensor.columns; i += kLanes) {
        const int64_t n = tensor.columns - i;
        const F change = update_of(tensor.grads + begin + i, matrix.column_factors + i, n, factor);
        const F param = fma(rate, change, load_some(tensor.params + begin + i, n) * stay);
        store_some(tensor.params + begin + i, param, n);
        if (tensor.copy != nullptr) store_some(tensor.copy + begin + i, param, n);
      }
    }
  }

  const AdafactorPass& job_;
  Executor& executor_;
  std::vector<Matrix> matrices_;
  std::vector<Piece> pieces_;
  std::vector<float> rates_;  // by parameter
};

}  // namespace

template <Isa kLevel, class... Job>
void AtLevel<kLevel, Job...>::run(const Job&... job, Executor& executor) {
  Run(job..., executor).run();
}
template struct AtLevel<kThisIsa, AdafactorPass>;

}  // namespace fovea::kernels
#include "fovea/kernels/simd/isa_end-inl.h"
