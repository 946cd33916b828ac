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

/// The data of every [[figure]], or of those with these ids, without caption and pictures. A figure
/// without rows is left out, which stderr says; NoRows where it was named, or is all there is.
/// Refers to the report's config, not to its rows.
std::vector<DrawnFigure> make_figures(const Report& report, const std::vector<std::string>& only);

/// Draws those of a config into the folder: data (.json, .csv) and the formats. Throws an Error
/// where no Python can be found, or where it fails.
void draw_figures(const Config& config, std::vector<DrawnFigure>& figures,
                  const std::string& folder, const DrawOptions& options);

}  // namespace tessera
