// Rows as a table: aligned on a terminal, CSV in a file.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

/// Columns padded to their widest cell, numbers to the right, a rule under the header.
std::string text_table(const std::vector<Row>& rows, const std::vector<std::string>& columns);

/// RFC 4180: quoted where needed, one header line, full precision.
std::string csv_table(const std::vector<Row>& rows, const std::vector<std::string>& columns);

/// Written beside and renamed.
void write_file(const std::string& path, const std::string& text);

}  // namespace tessera
