// The inputs of a point: matrices loaded, put into order and packed, and B.
//
// Inputs that the points of one matrix share are kept between points, one of each kind. Plans order
// their points so that this suffices.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "experiments/backends/find_order.hpp"
#include "experiments/run/analysis.hpp"
#include "experiments/run/latest.hpp"
#include "experiments/run/run_point.hpp"
#include "formats/format.hpp"
#include "formats/io/source.hpp"
#include "oracle/spmm_oracle.hpp"

namespace tessera {

/// A clock that starts when it is made.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A matrix with values drawn from a family.
struct MatrixKey {
  std::string reference;
  std::string values;  // the family, as text
  std::uint64_t seed = 0;

  bool operator==(const MatrixKey&) const = default;
};

struct LoadedInput {
  LoadedMatrix file;
  CsrMatrix matrix;    // with the values of the point
  std::string hash;    // of that, and of the family of B
  std::string values;  // the family, with "auto" resolved
};

/// The loaded matrix, as a record has it.
MatrixPart matrix_part(const LoadedInput& loaded);

/// A in an order.
struct OrderKey {
  std::string content;  // LoadedInput::hash
  std::string reorder;  // as text, with all parameters

  bool operator==(const OrderKey&) const = default;
};

struct OrderedInput {
  OrderKey key;
  FoundOrder found;
  CsrMatrix matrix;
  double apply_s = 0;

  const Order& order() const { return found.order; }
};

struct PackedInput {
  std::unique_ptr<PackedMatrix> matrix;
  double pack_s = 0;
};

/// The dense factors of an SDDMM.
struct DenseFactors {
  DenseMatrix x;  // rows in the order of A's rows
  DenseMatrix y;  // rows in the order of A's columns
};

class PointInputs {
 public:
  explicit PointInputs(PointRunnerOptions options) : options_(std::move(options)) {}

  const LoadedInput& a(const Point& point);

  /// A sparse B that is a matrix of its own, in the order of the file.
  const LoadedInput& right(const SparseProduct& product);

  /// A mask that is a matrix of its own.
  const LoadedInput& mask(const SparseProduct& product);

  /// The hash of all matrices that the point loads.
  std::string content_hash(const Point& point);

  const OrderedInput& ordered(const Point& point, const LoadedInput& source);
  const PackedInput& packed(const Variant& format, const OrderedInput& a);

  /// A dense B whose rows are in the order of the file.
  const DenseMatrix& dense_b(const DenseProduct& product, const LoadedInput& a);

  /// The same B with its rows in the order of the columns of the reordered A.
  const DenseMatrix& ordered_dense_b(const DenseProduct& product, const LoadedInput& source,
                                     const OrderedInput& a);

  /// The truth of A and that B, for every kernel's C in the order of the file; nullptr where it is
  /// not kept, or takes too much memory to be.
  const SpmmTruth* truth(const DenseProduct& product, const LoadedInput& a);

  /// A sparse B with its rows in the order of the columns of the reordered A. Throws Unsupported
  /// where the shapes or the order do not allow the product.
  const CsrMatrix& sparse_b(const Point& point, const OrderedInput& a);

  /// The mask of A B; nullptr for none. Throws Unsupported where the shapes or the order do not
  /// allow it.
  const CsrMatrix* sparse_mask(const Point& point, const OrderedInput& a, const CsrMatrix& b);

  /// X and Y in the order of the reordered A.
  const DenseFactors& dense_factors(const SampledProduct& product, const OrderedInput& a);

  /// The figures of the reordered A; with those of A A when `square` is true.
  const Figures& statistics(const OrderedInput& a, bool square);

  /// The figures of the papers' models. A is counted once for every N and device.
  Figures analysis(const Point& point, const OrderedInput& a);

  /// Reports the progress of the point's order. Not interruptible: terminate the process to stop
  /// it.
  Watch watch(const Point& point) const;

  /// Takes the place of every dense B from now on.
  void use_b(DenseMatrix b) { given_b_ = std::move(b); }

 private:
  struct PackedKey {
    OrderKey order;
    std::string format;
    bool operator==(const PackedKey&) const = default;
  };
  struct StatisticsKey {
    OrderKey order;
    bool square = false;
    bool operator==(const StatisticsKey&) const = default;
  };
  struct DenseKey {
    std::int64_t rows = 0, n = 0;
    std::uint64_t seed = 0;
    std::string values;
    bool operator==(const DenseKey&) const = default;
  };
  struct OrderedDenseKey {
    OrderKey order;
    DenseKey b;
    bool operator==(const OrderedDenseKey&) const = default;
  };
  struct TruthKey {
    std::string content;  // LoadedInput::hash
    DenseKey b;
    bool operator==(const TruthKey&) const = default;
  };
  struct FactorsKey {
    OrderKey order;
    std::int64_t n = 0;
    std::uint64_t seed = 0;
    std::string values;
    bool operator==(const FactorsKey&) const = default;
  };
  struct SparseKey {
    OrderKey order;
    std::string right;
    bool operator==(const SparseKey&) const = default;
  };

  static DenseKey key_of(const DenseProduct& product, const CsrMatrix& a);

  PointRunnerOptions options_;
  std::optional<DenseMatrix> given_b_;
  LastValueCache<LoadedInput, MatrixKey> a_;
  LastValueCache<LoadedInput, MatrixKey> right_;
  LastValueCache<LoadedInput, MatrixKey> mask_;
  LastValueCache<OrderedInput, OrderKey> ordered_;
  LastValueCache<PackedInput, PackedKey> packed_;
  LastValueCache<DenseMatrix, DenseKey> dense_b_;
  LastValueCache<DenseMatrix, OrderedDenseKey> ordered_dense_b_;
  LastValueCache<SpmmTruth, TruthKey> truth_;
  LastValueCache<DenseFactors, FactorsKey> dense_factors_;
  LastValueCache<CsrMatrix, SparseKey> sparse_b_;  // the transpose, or a reordered B
  LastValueCache<Figures, StatisticsKey> statistics_;
  LastValueCache<ModelCounts, OrderKey> model_counts_;
};

}  // namespace tessera
