// Rows by their number of nonzeros, so that the rows of a window have similar lengths; columns do
// not matter. Ties keep the order of the file.

#include <algorithm>
#include <numeric>

#include "formats/base/registry.hpp"
#include "reorder/reordering.hpp"

namespace tessera {
namespace {

class Degree final : public Reordering {
 public:
  explicit Degree(bool descending) : descending_(descending) {}

  Order order(const CsrMatrix& matrix, Watch&) const override {
    std::vector<std::int32_t> rows(matrix.rows);
    std::iota(rows.begin(), rows.end(), 0);
    std::ranges::stable_sort(rows, [&](std::int32_t a, std::int32_t b) {
      return descending_ ? matrix.row_length(a) > matrix.row_length(b)
                         : matrix.row_length(a) < matrix.row_length(b);
    });
    return {Permutation(std::move(rows)), std::nullopt};
  }

 private:
  bool descending_;
};

const Register<Reordering> entry{{
    .name = "degree",
    .summary = "rows by their number of nonzeros",
    .params = {{"sort",
                std::string("descending"),
                "longest or shortest rows first",
                {"descending", "ascending"}}},
    .make =
        [](const Params& params) {
          return std::make_unique<Degree>(params.text("sort") == "descending");
        },
}};

}  // namespace
}  // namespace tessera
