// The numbers of a text as LaTeX macros.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "experiments/tables/latex.hpp"

namespace tessera {
namespace {

/// "fig9, n = 32" -> "FigNineNThreeTwo": names of macros are made of letters.
std::string letters(const std::string& words) {
  static constexpr const char* kDigits[] = {"Zero", "One", "Two",   "Three", "Four",
                                            "Five", "Six", "Seven", "Eight", "Nine"};
  std::string name;
  bool is_start = true;
  for (const unsigned char c : words) {
    if (std::isdigit(c) != 0) name += kDigits[c - '0'];
    if (std::isalpha(c) != 0)
      name += static_cast<char>(is_start ? std::toupper(c) : static_cast<int>(c));
    is_start = std::isalpha(c) == 0;
  }
  return name;
}

class Macros {
 public:
  explicit Macros(const std::string& id) : id_(letters(id)) {
    text_ = fmt::format("% Written by tessera from the records of {}: its next call replaces it.\n",
                        id);
  }

  /// \newcommand, after a comment with `meaning`. The second macro of a name ends in B, and so on.
  void add(const std::string& words, const std::string& value, const std::string& meaning) {
    const std::string name = id_ + letters(words);
    std::string unique = name;
    for (char next = 'B'; !taken_.insert(unique).second; ++next) unique = name + next;
    std::string comment = meaning;
    std::ranges::replace(comment, '\n', ' ');
    text_ += fmt::format("% {}\n\\newcommand{{\\{}}}{{{}}}\n", comment, unique, value);
  }

  const std::string& text() const { return text_; }

 private:
  std::string id_, text_;
  std::set<std::string> taken_;
};

/// The values of a series of a normalised figure.
void add_series(const std::string& figure, const std::string& panel, const Json& series,
                Macros& macros) {
  double logs = 0;
  int values = 0, above = 0;
  for (const Json& point : series["points"]) {
    if (!point["y"].is_number() || point["y"].get<double>() <= 0) continue;
    logs += std::log(point["y"].get<double>());
    above += point["y"].get<double>() > 1 ? 1 : 0;
    ++values;
  }
  if (values == 0) return;
  const std::string name = series["name"], origin = series["origin"];
  const bool is_measured = origin == "measured" || origin == "counted";
  const std::string words =
      fmt::format("{} {} {} {}", figure, panel, name, is_measured ? "" : origin);
  const std::string of =
      fmt::format("{}, {}{}, {}", figure, panel.empty() ? "" : panel + ", ", name, origin);
  macros.add(words + " geomean", latex_number(std::exp(logs / values)), of + ": geometric mean");
  macros.add(words + " values", std::to_string(values), of + ": values");
  macros.add(words + " above", std::to_string(above), of + ": values above 1");
}

void add_figure(const DrawnFigure& drawn, Macros& macros) {
  const Json& json = drawn.data.json;
  const std::string id = drawn.figure->id;
  macros.add(id + " caption", latex_text(drawn.caption), id + ": caption");
  macros.add(id + " matrices", std::to_string(drawn.data.matrices), id + ": matrices");
  if (drawn.figure->normalise.empty()) return;
  if (json.contains("series"))
    for (const Json& series : json["series"]) add_series(id, "", series, macros);
  else
    for (const Json& panel : json["panels"])
      for (const Json& series : panel["series"]) add_series(id, panel["title"], series, macros);
}

void add_expectation(const ExpectationResult& result, Macros& macros) {
  if (result.values == 0) return;
  macros.add(result.name, latex_number(result.found), result.text);
  macros.add(result.name + " expected", latex_number(result.expected),
             fmt::format("{}: in {}", result.name, result.source));
  macros.add(result.name + " values", std::to_string(result.values),
             result.name + ": rows or pairs of rows");
  macros.add(result.name + " verdict", to_text(result.verdict), result.name + ": verdict");
}

/// The newest run that has records.
void add_environment(const RecordSet& records, Macros& macros) {
  std::set<std::string> used;
  for (const Json& record : records.points) used.insert(record.value("env_id", ""));
  const Json* newest = nullptr;
  for (const auto& [id, env] : records.environments)
    if (used.contains(id) &&
        (newest == nullptr || newest->value("started_at", "") < env.value("started_at", "")))
      newest = &env;
  macros.add("provenance", latex_text(provenance_text(records)), "all runs that have records");
  if (newest == nullptr) return;
  macros.add("machine", latex_text(machine_of(*newest)), "machine of the newest run");
  macros.add("date", latex_text(newest->value("started_at", "").substr(0, 10)),
             "day of the newest run");
  macros.add("commit", latex_text(newest->value("build", Json::object()).value("commit", "?")),
             "commit of the newest run");
}

}  // namespace

std::string latex_macros(const Report& report, const std::vector<DrawnFigure>& figures,
                         const std::vector<ExpectationResult>& results) {
  Macros macros(report.config.id);
  add_environment(report.records, macros);
  for (const DrawnFigure& figure : figures) add_figure(figure, macros);
  for (const ExpectationResult& result : results) add_expectation(result, macros);
  return macros.text();
}

}  // namespace tessera
