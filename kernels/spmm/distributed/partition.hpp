// Which part owns which rows of a product C = A B on several GPUs: A and C by rows, and with them
// the rows of B. A part multiplies its rows of A; the rows of B that it has nonzeros for and does
// not own travel to it.
//
// The volume is counted in rows of B. With lambda_j the number of parts that have a nonzero in
// column j, no owner of row j of B can do with fewer than lambda_j - 1 sends: the connectivity
// metric of the column-net hypergraph (Catalyurek and Aykanat, 1999, section 3). An owner without a
// nonzero in its column costs one row more.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"

namespace tessera {

struct RowPartition {
  int parts = 1;
  std::vector<std::int32_t> of_row = {};  // [rows of A] the part that owns the row of A and of C
  std::vector<std::int32_t> of_col = {};  // [cols of A] the part that owns that row of B
};

/// Contiguous parts whose largest sum of costs is the least possible, to one part in 10^9. `costs`
/// [rows] are not negative. Parts may be empty. Throws an Error for parts < 1.
std::vector<std::int32_t> contiguous_parts(std::span<const double> costs, int parts);

/// The nonzeros of each row. [rows]
std::vector<double> nonzero_costs(const CsrMatrix& a);

/// The share of each row in the time of the product by a kernel, in microseconds, from the formula
/// that is registered for it: what one nonzero, condensed column, TC block and row more add to the
/// time of all of A. The rows of a window of 16 share the cost of its columns. [rows] Throws
/// Unsupported for a kernel, or for parameters, without a formula. O(nonzeros).
std::vector<double> time_costs(const CsrMatrix& a, std::int64_t n, const std::string& kernel,
                               const Params& params);

/// The partition of A's rows `of_row` with the rows of B: those of a square A like its rows, so
/// that a C can be the next product's B where it is; those of another A with a part that has a
/// nonzero in the column, the one that owns the fewest so far. Throws an Error for a part outside
/// [0, parts) and for an `of_row` that has not one entry for each row.
RowPartition make_partition(const CsrMatrix& a, std::vector<std::int32_t> of_row, int parts);

/// The indices that each part owns, ascending: members_of(p.of_row, p.parts). [parts]
std::vector<std::vector<std::int32_t>> members_of(std::span<const std::int32_t> parts_of,
                                                  int parts);

/// The rows of B that travel, and the least number that could.
class ExchangeLists {
 public:
  explicit ExchangeLists(int parts)
      : parts_(parts), rows_(static_cast<std::size_t>(parts) * static_cast<std::size_t>(parts)) {}

  int parts() const { return parts_; }
  /// The rows of B, ascending, that part `to` gets from part `from`; none where both are one.
  const std::vector<std::int32_t>& rows(int to, int from) const { return rows_[index(to, from)]; }
  std::vector<std::int32_t>& rows(int to, int from) { return rows_[index(to, from)]; }

  std::int64_t received(int part) const;  // rows of B
  std::int64_t sent(int part) const;
  std::int64_t volume() const;  // of all parts

  /// The sum of lambda_j - 1 over the columns that have a nonzero.
  std::int64_t connectivity_bound = 0;

 private:
  std::size_t index(int to, int from) const {
    return static_cast<std::size_t>(to) * static_cast<std::size_t>(parts_) +
           static_cast<std::size_t>(from);
  }

  int parts_;
  std::vector<std::vector<std::int32_t>> rows_;  // [parts * parts]
};

/// The rows of B that parts have nonzeros for and do not own. O(nonzeros + parts cols), parallel.
ExchangeLists needed_rows(const CsrMatrix& a, const RowPartition& partition);

/// Every row of B, for every part that does not own it; `connectivity_bound` is that of `needed`.
ExchangeLists all_rows(const RowPartition& partition, const ExchangeLists& needed);

}  // namespace tessera
