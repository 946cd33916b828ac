// The columns of tables: the schema of a record as configs, figures and expectations see it.
// `tessera list columns` prints this table; rows.cpp reads records by it.
#pragma once

#include <span>
#include <string>

namespace tessera {

/// The origin of a column's values.
enum class ColumnOrigin {
  kPoint,    // as the rest of the row: emulated, modelled, simulated or measured
  kCounted,  // a size or a count, alike for every backend
  kHost      // measured on the host, whatever the backend
};

struct Column {
  const char* name;
  const char* meaning;
  const char* unit;     // "us", "bytes", "%", ...; empty for a number without one
  const char* pointer;  // JSON pointer into a record; empty where rows.cpp works it out
  ColumnOrigin origin = ColumnOrigin::kPoint;
};

/// Every column with a name of its own. Parameters of variants ("kernel.precision"), statistics of
/// matrices, figures of the papers' models, stages and predictions of kernels add more.
std::span<const Column> record_columns();

/// The column of that name; null when there is none.
const Column* find_column(const std::string& name);

/// "median time of a launch, us": meaning and unit as one line.
std::string to_text(const Column& column);

}  // namespace tessera
