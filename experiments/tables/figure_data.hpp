// The data of a figure: the JSON that its script draws, and the table beside it.
//
// Selection, normalisation and reduction happen here; a script in notebooks/ only draws. Every
// series carries its origin, so a prediction cannot be drawn as a measurement.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"
#include "formats/base/check.hpp"

namespace tessera {

/// None of the points of a figure has run yet, or none of those that it is normalised to.
class NoRows : public Error {
 public:
  using Error::Error;
};

struct FigureData {
  Json json;        // see notebooks/figure.py
  std::string csv;  // the rows drawn: panel, series, origin, x, y, low, high, bound
  std::size_t matrices = 0;
};

/// Throws an Error when two rows claim one place in a series: the figure's `where` is too wide.
FigureData make_figure_data(const Figure& figure, const std::vector<Row>& rows,
                            const Config& config, const std::string& provenance);

/// The GPU of an env record, else its CPU.
std::string machine_of(const Json& env);

/// "NVIDIA H200, 2026-11-21, commit 0123abc": from the env records.
std::string provenance_text(const RecordSet& records);

/// The rows that figures of a config are made from, those with these ids, or all. Refers to the
/// config.
WantedRows wanted_by_figures(const Config& config, const std::vector<std::string>& only);

}  // namespace tessera
