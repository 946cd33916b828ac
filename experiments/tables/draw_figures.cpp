#include "experiments/tables/draw_figures.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "experiments/tables/python.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "formats/base/check.hpp"
#include "formats/base/shipped_files.hpp"
#include "formats/base/suggest.hpp"
#include "formats/io/new_file.hpp"

namespace tessera {
namespace {

Json read_captions(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return Json::parse(text.str());
}

}  // namespace

std::vector<DrawnFigure> make_figures(const Report& report, const std::vector<std::string>& only) {
  std::vector<std::string> known;
  for (const Figure& figure : report.config.figures) known.push_back(figure.id);
  for (const std::string& id : only)
    require(std::ranges::find(known, id) != known.end(), "{}: {}", report.config.path,
            unknown_name_message("figure", id, known));

  const std::string provenance = provenance_text(report.records);
  std::vector<DrawnFigure> figures;
  std::string empty;  // the last one's message
  for (const Figure& figure : report.config.figures) {
    if (!only.empty() && std::ranges::find(only, figure.id) == only.end()) continue;
    try {
      figures.push_back(
          {&figure, make_figure_data(figure, report.rows, report.config, provenance), "", {}});
    } catch (const NoRows& none) {
      if (!only.empty()) throw;
      empty = none.what();
      fmt::print(stderr, "note: {}\n", empty);
    }
  }
  require<NoRows>(empty.empty() || !figures.empty(), "{}", empty);
  return figures;
}

void draw_figures(const Config& config, std::vector<DrawnFigure>& figures,
                  const std::string& folder, const DrawOptions& options) {
  if (figures.empty()) return;
  make_folder_of(folder + "/captions.json");
  const NewFile captions(folder + "/captions.json");  // never kept: the caller has them
  std::vector<std::string> arguments{find_python(),
                                     "-B",
                                     shipped_path("notebooks/draw.py"),
                                     "--style",
                                     options.style,
                                     "--columns",
                                     std::to_string(options.columns),
                                     "--format",
                                     fmt::format("{}", fmt::join(options.formats, ",")),
                                     "--captions",
                                     captions.path()};
  for (DrawnFigure& figure : figures) {
    const std::string base = folder + "/" + figure.figure->id;
    write_file(base + ".json", figure.data.json.dump(2));
    write_file(base + ".csv", figure.data.csv);
    arguments.push_back(base + ".json");
    for (const std::string& format : options.formats) figure.paths.push_back(base + "." + format);
  }
  require(run_program(arguments) == 0, "{}: the figures were not drawn", config.path);
  const Json words = read_captions(captions.path());
  for (DrawnFigure& figure : figures) figure.caption = words.at(figure.figure->id);
}

}  // namespace tessera
