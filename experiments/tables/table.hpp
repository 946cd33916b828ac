// Rows as a table: aligned on a terminal, CSV in a file.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

/// Columns padded to their widest cell, a rule under the header. Numbers stand to the right, and so
/// does text in the columns `aligned_right`.
std::string text_table(const std::vector<Row>& rows, const std::vector<std::string>& columns,
                       const std::set<std::string>& aligned_right = {});

/// A cell of a CSV table: quoted where needed (RFC 4180).
std::string csv_cell(std::string_view text);

/// Adds the same to a line.
void append_csv_cell(std::string& line, std::string_view text);

/// RFC 4180: quoted where needed, one header line, full precision.
std::string csv_table(const std::vector<Row>& rows, const std::vector<std::string>& columns);

}  // namespace tessera
