// Our own SpMM for scattered matrices: FP32 on CUDA cores, rows cut into pieces of about equal
// length, so that a matrix of few rows or of a few long ones fills the GPU, too.
//
// Where a condensed column has about one nonzero, a tensor core has nothing to share: a product is
// the fetching of one row of B for every nonzero. It takes as long as the loads in flight allow: 8
// to 32 lanes have eight of 16 bytes each in flight for a piece, and an SM holds 1024 lanes. The
// pieces of a row meet in the shared memory of their thread block, which adds them in the order of
// the row: results are the same bits every time, and C is neither cleared nor read. The longest
// rows come first. Only a row of more pieces than a thread block has takes several; the last of
// them to arrive adds their sums. Where C has few columns, lanes share the nonzeros of a piece.

#include "kernels/spmm/rows/rows_spmm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "formats/base/check.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/registry.hpp"
#include "formats/csr.hpp"
#include "kernels/overlap_param.hpp"
#include "kernels/spmm/narrowed/narrowed_b.hpp"
#include "kernels/spmm/rows/column_reuse.hpp"
#include "kernels/spmm/rows/trace.hpp"
#include "kernels/spmm/scaled_row.hpp"
#include "kernels/spmm_kernel.hpp"
#include "kernels/storage_params.hpp"
#include "kernels/tensor_core/precision.hpp"

namespace tessera {

namespace rows_spmm {
namespace {

constexpr std::int64_t kMaxNonzeros = 0xffffffff;  // 32 bits number them
constexpr std::int32_t kMaxOffset = 0xffff;        // of a column in 16 bits

/// Thread blocks of the classes of rows: split rows, then teams of 2^c units at index c + 1.
constexpr int kClasses = 9;
int class_of(const RowCut& cut) {
  return cut.thread_blocks > 1 ? 0 : 1 + std::countr_zero(static_cast<std::uint64_t>(cut.team));
}

/// The first unit of each class, and the number of all units. Classes are padded to whole thread
/// blocks.
struct ClassPlaces {
  std::array<std::int64_t, kClasses> first = {};
  std::int64_t units = 0;
};
ClassPlaces places_of(const CsrMatrix& a, const Launches& launches) {
  const Schedule& schedule = launches.pieces;
  std::array<std::int64_t, kClasses> units = {};
  for (std::int64_t row = 0; row < a.rows; ++row) {
    if (launches.is_direct(a.row_length(row))) continue;
    const RowCut cut = schedule.cut(a.row_length(row));
    units[class_of(cut)] += cut.pieces();
  }
  ClassPlaces places;
  const auto place = [&](int of) {
    places.first[of] = places.units;
    const std::int64_t per_block = schedule.units_per_block();
    places.units += (units[of] + per_block - 1) / per_block * per_block;
  };
  place(0);
  for (int of = kClasses - 1; of > 0; --of) place(of);
  return places;
}

void check_grid(std::int64_t thread_blocks) {
  require<Unsupported>(thread_blocks <= kMaxGridX,
                       "rows_spmm needs {} thread blocks; a grid has at most {}", thread_blocks,
                       kMaxGridX);
}

/// Adds the columns as offsets to a plan, unless one needs more than 16 bits.
void add_offsets(const CsrMatrix& a, Plan& plan) {
  const auto columns_of = [&](const Unit& unit) {
    return std::span(a.col_indices).subspan(unit.first, unit.count);
  };
  for (const Unit& unit : plan.units)
    if (unit.count > 0 && columns_of(unit).back() - columns_of(unit).front() > kMaxOffset) return;
  plan.bases.reserve(plan.units.size());
  plan.col_offsets.resize(static_cast<std::size_t>(a.nnz()));
  for (const Unit& unit : plan.units) {
    const std::int32_t base = unit.count > 0 ? columns_of(unit).front() : 0;
    plan.bases.push_back(static_cast<std::uint32_t>(base));
    std::ranges::transform(
        columns_of(unit), plan.col_offsets.begin() + unit.first,
        [base](std::int32_t col) { return static_cast<std::uint16_t>(col - base); });
  }
}

}  // namespace

Plan make_plan(const CsrMatrix& a, const Launches& launches) {
  require<Unsupported>(a.nnz() <= kMaxNonzeros, "rows_spmm takes at most {} nonzeros, not {}",
                       kMaxNonzeros, a.nnz());
  if (launches.most_direct >= 0) check_grid(launches.direct.blocks_of(a.rows));
  const Schedule& schedule = launches.pieces;
  ClassPlaces places = places_of(a, launches);
  const std::int64_t per_block = schedule.units_per_block();
  check_grid(places.units / per_block);
  Plan plan;
  plan.units.resize(static_cast<std::size_t>(places.units));
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const std::int64_t length = a.row_length(row);
    if (launches.is_direct(length)) continue;
    const RowCut cut = schedule.cut(length);
    std::int64_t& at = places.first[class_of(cut)];
    if (cut.thread_blocks > 1) {
      plan.split_rows.push_back({static_cast<std::uint32_t>(plan.num_slots),
                                 static_cast<std::uint32_t>(cut.thread_blocks)});
      plan.num_slots += cut.thread_blocks;
    }
    for (std::int64_t piece = 0; piece < cut.pieces(); ++piece, ++at) {
      const std::int64_t first = piece_begin(length, cut.pieces(), piece);
      const std::int64_t end = piece_begin(length, cut.pieces(), piece + 1);
      plan.units[at] = {
          .row = static_cast<std::uint32_t>(row),
          .first = static_cast<std::uint32_t>(a.row_offsets[row] + first),
          .split = static_cast<std::uint32_t>(cut.thread_blocks > 1 ? plan.split_rows.size() : 0),
          .count = static_cast<std::uint16_t>(end - first),
          .team = static_cast<std::uint16_t>(cut.team)};
    }
  }
  // What is left of a class's last thread block.
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit)
    if (plan.units[unit].team == 0)
      plan.units[unit] = {
          .row = kNoRow, .first = 0, .split = 0, .count = 0, .team = plan.units[unit - 1].team};
  if (schedule.has_offsets) add_offsets(a, plan);
  return plan;
}

std::vector<ParamSpec> params() {
  std::vector<ParamSpec> specs = storage_params("the type of B in memory");
  const std::vector<ParamSpec> own = {
      {"piece",
       std::int64_t{0},
       "most nonzeros of a row that one unit of lanes multiplies; 0: 16 to 64, by the matrix "
       "and the width of C",
       {},
       0,
       kMaxPiece},
      {"columns",
       std::int64_t{0},
       "most columns of C of a warp, which has 128, 256 or 512 (twice 256 in 16 bits); 0: by "
       "the matrix and the width of C",
       {},
       0,
       512},
      {"lanes",
       std::int64_t{0},
       "lanes of a unit of at most 16 columns of C: 2, 8, 16 or 32; 0: by the matrix",
       {},
       0,
       32},
      {"offsets",
       std::string("auto"),
       "columns of A as distances of 16 bits from the first one of their piece, for at most 16 "
       "columns of C: by the matrix, wherever none is longer, or never",
       {"auto", "always", "never"}},
      {"nonzeros",
       std::string("auto"),
       "of a unit of more than 16 columns of C: each loaded by one lane, which hands it to the "
       "others (shared), or by all of them where no row has more than 64 (direct); by the matrix "
       "(auto)",
       {"auto", "shared", "direct"}},
      {"turns",
       std::int64_t{0},
       "rows in FP32 that a unit takes one after another, where its lanes load all nonzeros of a "
       "row and C has more than 32 columns: 1, 2 or 4; 0: by the matrix and the width of C",
       {},
       0,
       4},
      {"launches",
       std::int64_t{2},
       "launches at most: with two, rows of at most 64 nonzeros are multiplied as they are beside "
       "longer ones in pieces, where that pays",
       {},
       1,
       2},
      {"precision",
       std::string("fp32"),
       "how a B in FP32 is read; fp16_scaled: it is rounded to FP16 under a power of two for every "
       "column, in a launch of its own",
       {"fp32", "fp16_scaled"}},
      overlap_param()};
  specs.insert(specs.begin(), own.begin(), own.end());
  return specs;
}

namespace {

Offsets offsets_of(const std::string& named) {
  if (named == "auto") return Offsets::kByMatrix;
  return named == "always" ? Offsets::kWhereTheyFit : Offsets::kNever;
}

Nonzeros nonzeros_of(const std::string& named) {
  if (named == "auto") return Nonzeros::kByMatrix;
  return named == "direct" ? Nonzeros::kDirect : Nonzeros::kShared;
}

}  // namespace

bool is_narrowed(const Params& params) {
  if (params.text("precision") == "fp32") return false;
  require(storage_of(params) == Storage{}, "precision = fp16_scaled is of B and C in FP32");
  return true;
}

namespace {

/// A is multiplied as it is, unless its products with a scaled B could overflow.
narrowed::ScaledRows as_it_is(const PackedMatrix& packed) {
  const float limit = std::ldexp(1.0f, narrowed::kMostExponent + 1);
  for (const float value : packed_as<CsrPacked>(packed).matrix.values)
    require<Unsupported>(std::abs(value) < limit,
                         "fp16_scaled takes values of A below 2^{} in magnitude, not {}",
                         narrowed::kMostExponent + 1, value);
  return {};
}

}  // namespace

narrowed::Recipe narrowed_recipe(const Params& params) {
  return {.kernel = "rows_spmm",
          .params = params,
          .changes = {{"precision", std::string("fp32")}, {"launches", std::int64_t{1}}},
          .scale_rows = as_it_is};
}

Launches launches_of(const Params& params, const CsrMatrix& a, std::int64_t n) {
  RowStatistics short_rows, long_rows;
  for (std::int32_t row = 0; row < a.rows; ++row)
    (a.row_length(row) <= kLongestDirect ? short_rows : long_rows).add(a.row_length(row));
  const std::int64_t lanes = params.integer("lanes");
  require(lanes == 0 || (lanes >= 2 && lanes != 4 && std::has_single_bit(unsigned(lanes))),
          "a unit of rows_spmm has 2, 8, 16 or 32 lanes, not {}", lanes);
  const std::int64_t turns = params.integer("turns");
  require(turns != 3, "a unit of rows_spmm takes 1, 2 or 4 rows, not {}", turns);
  const Storage storage = storage_of(params);
  const auto b_bytes = static_cast<std::int64_t>(bytes_of(storage.b));
  const ScheduleChoice choice{
      .piece = params.integer("piece"),
      .columns = params.integer("columns"),
      .gathered = gathered_columns(a, n, b_bytes, static_cast<std::int64_t>(bytes_of(storage.c))),
      .nonzeros = nonzeros_of(params.text("nonzeros")),
      .mixes = params.integer("launches") > 1,
      .few_lanes = static_cast<int>(lanes),
      .turns = storage.b == ElementType::kFp32 ? static_cast<int>(turns) : 1,
      .offsets = offsets_of(params.text("offsets"))};
  return make_launches(short_rows, long_rows, n, choice, static_cast<int>(16 / b_bytes));
}

}  // namespace rows_spmm

namespace {

using namespace rows_spmm;

/// The sums of a row of C as the device half adds them.
class RowSums {
 public:
  RowSums(const CsrMatrix& a, const DenseMatrix& b, const Launches& launches)
      : a_(a),
        b_(b),
        launches_(launches),
        parts_(static_cast<std::size_t>(launches.pieces.parts), std::vector<float>(b.cols)),
        block_(b.cols),
        unit_(b.cols) {}

  void add_row(std::int64_t row, std::span<float> to) {
    const Schedule& schedule = launches_.of(a_.row_length(row));
    const RowCut cut = schedule.cut(a_.row_length(row));
    if (cut.thread_blocks == 1) return add_block(row, cut, 0, to);
    const int units = schedule.units_per_block();
    const auto slots = static_cast<std::uint32_t>(cut.thread_blocks);
    for (int unit = 0; unit < units; ++unit) {
      std::ranges::fill(unit_, 0.0f);
      const std::uint32_t end = first_slot_of(slots, units, unit + 1);
      for (std::uint32_t slot = first_slot_of(slots, units, unit); slot < end; ++slot) {
        add_block(row, cut, slot, block_);
        add(block_, unit_);
      }
      unit == 0 ? copy(unit_, to) : add(unit_, to);
    }
  }

 private:
  /// The pieces of one thread block of a row.
  void add_block(std::int64_t row, const RowCut& cut, std::int64_t block, std::span<float> to) {
    const std::int64_t length = a_.row_length(row), begin = a_.row_offsets[row];
    for (std::int64_t i = 0; i < cut.team; ++i) {
      const std::int64_t piece = block * cut.team + i;
      const std::int64_t end = begin + piece_begin(length, cut.pieces(), piece + 1);
      const std::span<const float> sums =
          add_piece(begin + piece_begin(length, cut.pieces(), piece), end);
      i == 0 ? copy(sums, to) : add(sums, to);
    }
  }

  /// The sums of nonzeros [first, end). Parts take them in turn; halves of the parts are added
  /// until one is left.
  std::span<const float> add_piece(std::int64_t first, std::int64_t end) {
    const std::size_t parts = parts_.size();
    for (std::size_t part = 0; part < parts; ++part) {
      std::vector<float>& sums = parts_[part];
      std::ranges::fill(sums, 0.0f);
      for (std::int64_t k = first + static_cast<std::int64_t>(part); k < end;
           k += std::ssize(parts_))
        add_scaled_row(a_.values[k], b_.row(a_.col_indices[k]).data(), sums.data(), b_.cols);
      // The GPU has one NaN.
      for (float& value : sums)
        if (std::isnan(value)) value = std::bit_cast<float>(0x7fffffff);
    }
    for (std::size_t half = parts / 2; half > 0; half /= 2)
      for (std::size_t part = 0; part < half; ++part) add(parts_[part + half], parts_[part]);
    return parts_[0];
  }

  static void copy(std::span<const float> from, std::span<float> to) {
    std::ranges::copy(from, to.begin());
  }
  static void add(std::span<const float> from, std::span<float> to) {
    for (std::size_t j = 0; j < from.size(); ++j) to[j] = add_on_gpu(to[j], from[j]);
  }

  const CsrMatrix& a_;
  const DenseMatrix& b_;
  Launches launches_;
  std::vector<std::vector<float>> parts_;  // [parts][n]
  std::vector<float> block_, unit_;        // [n]
};

class RowsSpmm final : public SpmmKernel {
 public:
  explicit RowsSpmm(Params params) : params_(std::move(params)) {}

  std::string format() const override { return CsrPacked::kFormat; }
  int version() const override { return 5; }
  Arithmetic arithmetic() const override { return {.storage = storage_of(params_)}; }

  /// A nonzero, a level of the tree of parts, or the sum of a piece, a thread block or a unit of
  /// the last one is a term. The pieces are those of the width of C that cuts a row into the most.
  std::vector<std::int64_t> terms_per_row(const PackedMatrix& packed) const override {
    const auto& csr = packed_as<CsrPacked>(packed);
    std::vector<Launches> launches;
    for (const std::int64_t n : {1, 2, 9, 17, 33, 65, 129})
      launches.push_back(launches_of(params_, csr.matrix, n));
    std::vector<std::int64_t> terms = csr.row_lengths();
    for (std::int64_t& count : terms) {
      std::int64_t most = 0;
      for (const Launches& of_width : launches) {
        const Schedule& schedule = of_width.of(count);
        const RowCut cut = schedule.cut(count);
        std::int64_t more = std::countr_zero(static_cast<unsigned>(schedule.parts));
        if (cut.pieces() > 1) more += cut.pieces();
        if (cut.thread_blocks > 1) more += cut.thread_blocks + schedule.units_per_block();
        most = std::max(most, more);
      }
      count += most;
    }
    return terms;
  }

  DenseMatrix emulate(const PackedMatrix& packed, const DenseMatrix& b,
                      const Generation&) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    const Launches launches = launches_of(params_, a, b.cols);
    const DenseMatrix stored_b = stored_as(storage_of(params_).b, b);
    DenseMatrix c(a.rows, b.cols);
    parallel_for(a.rows, 64, [&](std::int64_t begin, std::int64_t end) {
      RowSums sums(a, stored_b, launches);
      for (std::int64_t row = begin; row < end; ++row) sums.add_row(row, c.row(row));
    });
    return c;
  }

  WorkDescription work(const PackedMatrix& packed, std::int64_t n) const override {
    const CsrMatrix& a = packed_as<CsrPacked>(packed).matrix;
    WorkDescription work{.kernel = "rows_spmm"};
    const Storage storage = storage_of(params_);
    describe_launches(a, launches_of(params_, a, n), storage, n, work);
    // The second of two launches always overlaps the first.
    if (!work.launches.empty())
      work.launches.front().overlaps = overlap_of(params_) != Overlap::kNone;
    work.footprint_bytes = stats(packed).bytes;
    work.b_rows_bytes =
        static_cast<std::int64_t>(bytes_of(storage.b)) * n * count_distinct(a.col_indices, a.cols);
    work.c_bytes = static_cast<std::int64_t>(bytes_of(storage.c)) * n * a.rows;
    work.useful_flops = 2 * a.nnz() * n;
    return work;
  }

 private:
  Params params_;
};

const Register<SpmmKernel> entry{{
    .name = "rows_spmm",
    .summary = "CSR on CUDA cores, rows cut into pieces that meet in shared memory (FP32, ours)",
    .params = rows_spmm::params(),
    .make = [](const Params& params) -> std::unique_ptr<SpmmKernel> {
      if (rows_spmm::is_narrowed(params))
        return narrowed::make_kernel(rows_spmm::narrowed_recipe(params));
      return std::make_unique<RowsSpmm>(params);
    },
}};

}  // namespace
}  // namespace tessera
