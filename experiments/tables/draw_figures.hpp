// Figures of an experiment as pictures: their data are written here, and a script of notebooks/
// draws them.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/figure_data.hpp"
#include "experiments/tables/report.hpp"

namespace tessera {

/// The choices of notebooks/style.py and notebooks/figure.py.
inline const std::vector<std::string> kFigureStyles{"screen", "acm", "ieee", "slides"};
inline const std::vector<std::string> kFigureFormats{"pdf", "png", "svg", "pgf"};

struct DrawOptions {
  std::vector<std::string> only;  // ids; empty for all figures
  std::string style = "screen";
  int columns = 0;  // of a paper that a figure takes; 0: as it needs
  std::vector<std::string> formats{"pdf", "png"};
};

struct DrawnFigure {
  const Figure* figure;  // of the report's config
  FigureData data;
  std::string caption;             // with origin, provenance and what is missing
  std::vector<std::string> paths;  // of the pictures, one for each format
};

/// Draws every [[figure]] (or those named) into the folder: data (.json, .csv) and the formats. A
/// figure without rows is left out, which stderr says; NoRows where it was named, or is all there
/// is. Throws an Error where no Python can be found, or where it fails.
std::vector<DrawnFigure> draw_figures(const Report& report, const std::string& folder,
                                      const DrawOptions& options);

}  // namespace tessera
