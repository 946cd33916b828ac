// One part of a product on several GPUs: its rows of A, cut into the columns whose rows of B it
// owns and those that travel to it, both renumbered, and what it sends and receives.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/matrix.hpp"
#include "kernels/spmm/distributed/partition.hpp"

namespace tessera {

/// How the other parts' rows of B reach a part.
enum class Exchange {
  kNeeded,      // only the rows that it has nonzeros for, while its own are multiplied
  kReplicated,  // all of them, while its own are multiplied: nothing is gathered
  kGathered,    // all of them, before one product with all of B: what CAGNET calls 1D
};

/// The name: "needed", "replicated" or "gathered".
const char* name_of(Exchange exchange);

/// Rows of B that a part sends to another one, or receives from it.
struct PeerRows {
  int peer = 0;
  std::int64_t first = 0;  // the first of them in the part's list of rows to send (receive)
  std::int64_t count = 0;  // at least 1
};

/// A part's share of C = A B. It owns the rows `rows` of A and C, M_p of them, and the rows
/// `b_rows` of B, K_p of them, in that order.
struct PartOfProduct {
  int part = 0;
  std::vector<std::int32_t> rows = {};    // [M_p] ascending
  std::vector<std::int32_t> b_rows = {};  // [K_p] ascending

  CsrMatrix local = {};   // [M_p x K_p] columns whose rows of B it owns
  CsrMatrix remote = {};  // [R x received] the other columns, without rows that have none of them
  std::vector<std::int32_t> remote_rows = {};  // [R] the row of C that each row of it adds to

  std::vector<std::int32_t> sent_rows = {};  // places in b_rows, by receiver, ascending for each
  std::vector<PeerRows> sends = {};          // by ascending receiver
  std::vector<PeerRows> receives = {};       // by ascending sender; their rows are remote's columns
};

/// The part of a product whose exchange has these lists. Throws an Error where A has a nonzero in a
/// column that neither the part owns nor the lists bring. O(nonzeros of the part + cols).
PartOfProduct split(const CsrMatrix& a, const RowPartition& partition, const ExchangeLists& lists,
                    int part);

/// The rows [M_p x K] of a part that multiplies all of B at once, with B's rows in the order of the
/// parts that own them.
CsrMatrix rows_of_part(const CsrMatrix& a, const RowPartition& partition, int part);

}  // namespace tessera
