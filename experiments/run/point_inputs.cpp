#include "experiments/run/point_inputs.hpp"

#include <algorithm>

#include "experiments/machine/machine.hpp"
#include "experiments/run/describe.hpp"
#include "experiments/run/point_identity.hpp"
#include "formats/base/extents.hpp"
#include "formats/base/hash.hpp"
#include "formats/base/random.hpp"
#include "formats/values/value_family.hpp"

namespace tessera {
namespace {

LoadedInput load(const MatrixKey& key, const Variant& values) {
  const auto family = make_registered<ValueFamily>(values);
  LoadedInput loaded{load_matrix(key.reference), {}, "", key.values};
  const CsrMatrix& file = loaded.file.matrix;
  if (const std::string chosen = family->chosen_for(file); !chosen.empty()) loaded.values = chosen;
  loaded.matrix = {file.rows, file.cols, file.row_offsets, file.col_indices,
                   family->a_values(file, key.seed)};
  // The content follows from the file, the family and the seed: no need to hash the values.
  loaded.hash =
      hash_text(fmt::format("{} {} {}", loaded.file.content_hash, loaded.values, key.seed));
  return loaded;
}

/// A A of a reordered A is the reordered A A only where rows and columns moved alike.
void require_one_order(const Point& point, const Order& order) {
  const bool is_one = order.cols ? *order.cols == order.rows : order.rows.is_identity();
  require<Unsupported>(is_one,
                       "reordering {} does not move rows and columns alike, and both factors of "
                       "A A are the reordered A",
                       point.reorder.name);
}

}  // namespace

MatrixPart matrix_part(const LoadedInput& loaded) {
  return {.name = loaded.file.source.name,
          .hash = loaded.file.content_hash,
          .source = loaded.file.source.canonical,
          .values = loaded.values,
          .rows = loaded.matrix.rows,
          .cols = loaded.matrix.cols,
          .nnz = loaded.matrix.nnz(),
          .synthetic = loaded.file.source.synthetic()};
}

const LoadedInput& PointInputs::a(const Point& point) {
  const OperandValues operands = operand_values(point);
  const MatrixKey key{point.matrix, to_text(operands.values), operands.seed};
  return a_.get(key, [&] { return load(key, operands.values); });
}

const LoadedInput& PointInputs::right(const SparseProduct& product) {
  // Drawn from another stream than A's values.
  const MatrixKey key{product.right, to_text(product.values), mix_bits(product.seed)};
  return right_.get(key, [&] { return load(key, product.values); });
}

const LoadedInput& PointInputs::mask(const SparseProduct& product) {
  static const Variant as_stored = parse_values(kPatternAlone);
  const MatrixKey key{product.mask, to_text(as_stored), 0};
  return mask_.get(key, [&] { return load(key, as_stored); });
}

std::string PointInputs::content_hash(const Point& point) {
  return joint_hash(point, [&](const std::string& matrix) {
    if (matrix == point.matrix) return a(point).file.content_hash;
    const SparseProduct& product = sparse_product(point);
    return (matrix == product.right ? right(product) : mask(product)).file.content_hash;
  });
}

const OrderedInput& PointInputs::ordered(const Point& point, const LoadedInput& source) {
  const OrderKey key{source.hash, to_text(point.reorder)};
  return ordered_.get(key, [&] {
    Watch order_watch = watch(point);
    OrderedInput result{key,
                        find_order(source.matrix, source.file.content_hash, point.reorder,
                                   order_watch, options_.fresh_orders),
                        {},
                        0};
    const Stopwatch applying;
    result.matrix = apply(source.matrix, result.order());
    result.apply_s = applying.seconds();
    return result;
  });
}

Watch PointInputs::watch(const Point& point) const {
  if (!options_.tell_order) return Watch();
  options_.tell_order(point, 0);
  return Watch({}, [&](double share) { options_.tell_order(point, share); });
}

const PackedInput& PointInputs::packed(const Variant& format, const OrderedInput& a) {
  return packed_.get({a.key, to_text(format)}, [&] {
    const auto made = make_registered<Format>(format);
    const Stopwatch packing;
    PackedInput result{made->pack(a.matrix), 0};
    result.pack_s = packing.seconds();
    return result;
  });
}

const CsrMatrix* PointInputs::sparse_mask(const Point& point, const OrderedInput& a,
                                          const CsrMatrix& b) {
  const SparseProduct& product = sparse_product(point);
  if (product.mask.empty()) return nullptr;
  if (product.mask == kSelf)
    require_one_order(point, a.order());
  else
    require<Unsupported>(a.order().rows.is_identity() && !a.order().cols,
                         "a mask that is a matrix of its own is in the order of the file, and "
                         "reordering {} moves the rows of C",
                         point.reorder.name);
  const CsrMatrix& cells = product.mask == kSelf ? a.matrix : mask(product).matrix;
  require<Unsupported>(cells.rows == a.matrix.rows && cells.cols == b.cols,
                       "A B is {} x {}, and its mask {} x {}", a.matrix.rows, b.cols, cells.rows,
                       cells.cols);
  return &cells;
}

PointInputs::DenseKey PointInputs::key_of(const DenseProduct& product, const CsrMatrix& a) {
  return {a.cols, product.n, product.seed, to_text(product.values)};
}

const DenseMatrix& PointInputs::dense_b(const DenseProduct& product, const LoadedInput& a) {
  return dense_b_.get(key_of(product, a.matrix), [&] {
    const std::int32_t rows = a.matrix.cols;
    element_count(std::max(rows, a.matrix.rows), product.n);  // B and C fit a memory
    // Drawn from another stream than A's values.
    if (!given_b_)
      return make_registered<ValueFamily>(product.values)
          ->b(rows, product.n, mix_bits(product.seed));
    require(given_b_->rows == rows && given_b_->cols == product.n,
            "B is {} x {}, but A has {} columns and n is {}", given_b_->rows, given_b_->cols, rows,
            product.n);
    return *given_b_;
  });
}

const DenseMatrix& PointInputs::ordered_dense_b(const DenseProduct& product,
                                                const LoadedInput& source, const OrderedInput& a) {
  const DenseMatrix& b = dense_b(product, source);
  if (!a.order().cols) return b;
  return ordered_dense_b_.get({a.key, key_of(product, source.matrix)},
                              [&] { return permute_rows(b, *a.order().cols); });
}

const SpmmTruth* PointInputs::truth(const DenseProduct& product, const LoadedInput& a) {
  constexpr std::int64_t kShareOfMemory = 32;  // every worker keeps one
  if (!options_.keeps_truth ||
      SpmmTruth::bytes(a.matrix.rows, product.n) > memory_bytes() / kShareOfMemory)
    return nullptr;
  return &truth_.get({a.hash, key_of(product, a.matrix)},
                     [&] { return spmm_truth(a.matrix, dense_b(product, a)); });
}

const CsrMatrix& PointInputs::sparse_b(const Point& point, const OrderedInput& a) {
  const SparseProduct& product = sparse_product(point);
  if (product.right == kSelf) {
    require<Unsupported>(a.matrix.rows == a.matrix.cols, "A A needs a square A, and A is {} x {}",
                         a.matrix.rows, a.matrix.cols);
    require_one_order(point, a.order());
    return a.matrix;
  }
  const SparseKey key{a.key, product.right};
  if (product.right == kTranspose) return sparse_b_.get(key, [&] { return transpose(a.matrix); });
  const CsrMatrix& b = right(product).matrix;
  require<Unsupported>(a.matrix.cols == b.rows, "A has {} columns and B {} rows", a.matrix.cols,
                       b.rows);
  if (!a.order().cols) return b;
  return sparse_b_.get(key, [&] { return permute_rows(b, *a.order().cols); });
}

const DenseFactors& PointInputs::dense_factors(const SampledProduct& product,
                                               const OrderedInput& a) {
  return dense_factors_.get({a.key, product.n, product.seed, to_text(product.values)}, [&] {
    element_count(std::max(a.matrix.rows, a.matrix.cols), product.n);  // X and Y fit a memory
    const auto family = make_registered<ValueFamily>(product.values);
    // Drawn from other streams than A's values.
    const std::uint64_t of_x = mix_bits(product.seed), of_y = mix_bits(of_x);
    DenseFactors factors{family->b(a.matrix.rows, product.n, of_x),
                         family->b(a.matrix.cols, product.n, of_y)};
    if (!a.order().rows.is_identity()) factors.x = permute_rows(factors.x, a.order().rows);
    if (a.order().cols) factors.y = permute_rows(factors.y, *a.order().cols);
    return factors;
  });
}

const Figures& PointInputs::statistics(const OrderedInput& a, bool square) {
  return statistics_.get({a.key, square}, [&] { return describe(a.matrix, square); });
}

Figures PointInputs::analysis(const Point& point, const OrderedInput& a) {
  const ModelCounts& counts =
      model_counts_.get(a.key, [&] { return count_for_models(a.matrix, false); });
  return applicable(analyse(counts, dense_product(point).n, find_device(point.device)));
}

}  // namespace tessera
