// The options of rows_sddmm and its work, for its host and its device half.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/base/params.hpp"
#include "formats/coo.hpp"
#include "kernels/sddmm/rows/schedule.hpp"
#include "kernels/sddmm/shared/sddmm_options.hpp"
#include "kernels/work.hpp"

namespace tessera::rows_sddmm {

struct RowsSddmmOptions : sddmm::SddmmOptions {
  explicit RowsSddmmOptions(const Params& params)
      : SddmmOptions(params), run(params.integer("run")) {}

  Schedule schedule(std::int64_t nnz, std::int64_t k) const {
    return Schedule::of(nnz, k * bytes(), run);
  }

  std::int64_t run;  // nonzeros of a group; 0: by the matrix
};

std::vector<ParamSpec> params();

/// The work of a product with an X and a Y of k columns. It refers to `a`.
WorkDescription describe_work(const Coo& a, const RowsSddmmOptions& options, std::int64_t k);

}  // namespace tessera::rows_sddmm
