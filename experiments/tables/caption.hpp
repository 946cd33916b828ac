// The caption and the axis labels of a figure, derived from its data: the selection, the number of
// matrices, the values that all rows share, the meaning of 1 and of whiskers.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

/// Columns that describe all of a figure where they have few values and no place in it.
inline constexpr std::array kConditions{"kernel", "format",           "n",  "right",  "reorder",
                                        "values", "kernel.precision", "l2", "device", "threads"};

/// "24 matrices (4 more skipped), N = 128, warm L2. Selected: backend = gpu. Relative to cuSPARSE
/// at the same matrix." `rows` are all rows of the experiment, `drawn` those in the figure.
std::string derived_caption(const Figure& figure, const std::vector<Row>& rows,
                            const RowRefs& drawn);

/// The texts that a column has in the rows, in the order of the first row with each; none for a row
/// without a value.
std::vector<std::string> distinct(const std::string& column, const RowRefs& rows);

/// "rate of a product (GFLOP/s)": the documentation of a numeric column up to its first comma, with
/// the unit; the name of any other column, spaces for underscores.
std::string axis_label(const std::string& column, const RowRefs& drawn);

/// "category" unless the column holds numbers; "log" where these are positive and span a factor of
/// 16 and more, otherwise "linear".
std::string axis_scale(const std::string& column, const RowRefs& drawn);

/// "1 matrix", "24 matrices", "0 values".
std::string counted(std::size_t count, const std::string& one, const std::string& many);

}  // namespace tessera
