// Results as LaTeX: a table, and the numbers of a text as macros.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/draw_figures.hpp"
#include "experiments/tables/expectation.hpp"
#include "experiments/tables/report.hpp"

namespace tessera {

/// Text with LaTeX's special characters escaped.
std::string latex_text(const std::string& text);

/// Four significant digits: "1.414", "$1.2\times10^{-5}$".
std::string latex_number(double value);

/// The [table] as a tabular of booktabs: names and units in the head, the best value of each column
/// in bold among rows of one matrix, B and device, predictions in italics beside measurements, and
/// a last line with origin and provenance.
std::string latex_table(const Report& report);

/// A \newcommand for machine, date and commit, for every figure drawn (caption, matrices, and of
/// a normalised one the geometric mean of each series, its values and those above 1) and for every
/// [[expect]] in `results` (found, expected, values, verdict). "fig9, n = 32" is called
/// FigNineNThreeTwo.
std::string latex_macros(const Report& report, const std::vector<DrawnFigure>& figures,
                         const std::vector<ExpectationResult>& results);

}  // namespace tessera
