// The data of a report's page: everything about one experiment, as JSON for notebooks/report/.
#pragma once

#include "experiments/tables/report.hpp"

namespace tessera {

/// id, title, path, hash and text of the config; `planned`, the number of points it asks
/// for; `environments` and `records` as they are; `skips`, a line for each cause to skip points;
/// `rows` with every column, `groups` and `origins` beside them (value_origin by column, alike for
/// all rows of a group, where it is not the row's own); `table`: its columns and the numbers of its
/// rows; `figures` as `tessera figure` has them; `expectations` with their verdicts: "met",
/// "refuted" or "not judged".
///
/// A report without a config (its path is empty) has records, rows and environments only.
Json page_data(const Report& report);

/// The report on records that come without their config, a row for every record. Its id is the name
/// of their folder.
Report report_on_records(const std::string& folder_or_file);

}  // namespace tessera
