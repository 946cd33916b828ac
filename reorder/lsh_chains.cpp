// Locality-sensitive hashing for preparation on a GPU: rows whose MinHash signatures agree in a
// band are compared, and similar ones are joined into chains.
//
// The hash functions and the division into bands are those of minhash.cpp. So that every step is a
// loop of independent iterations, which a GPU runs as well (lsh_chains.cu), with the same order,
// rows are sorted by their keys in a band and compared with their neighbours by the bytes that both
// signatures share (b-bit minwise hashing, Li and Koenig 2010); the exact similarity decides among
// the best six of each row. Where lsh64 and dtc_lsh merge clusters pair by pair, chains are joined
// at their ends, the best pairs first (row_joins.hpp). Time: a hash for each nonzero and function,
// and O(rows bands reach hashes / 8). Memory for 64 hashes: 280 bytes per row.

#include <memory>

#include "formats/base/registry.hpp"
#include "reorder/lsh_chains_search.hpp"
#include "reorder/matched_threads.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

class LshChains final : public Reordering {
 public:
  LshChains(const matched::LshOptions& options, double time_limit_s)
      : options_(options), time_limit_s_(time_limit_s) {}

  Order order(const CsrMatrix& matrix, Watch& watch) const override {
    watch.limit(time_limit_s_);
    return {matched::order_on_threads<matched::LshSearch<matched::OnThreads>>("lsh_chains", matrix,
                                                                              options_, watch),
            std::nullopt};
  }

 private:
  matched::LshOptions options_;
  double time_limit_s_;
};

const Register<Reordering> entry{{
    .name = "lsh_chains",
    .summary = "similar rows (MinHash) joined into chains, also on the GPU",
    .params = matched::lsh_chains_params(),
    .make =
        [](const Params& p) {
          return std::make_unique<LshChains>(matched::lsh_chains_options(p),
                                             p.real("time_limit_s"));
        },
}};

}  // namespace
}  // namespace tessera
