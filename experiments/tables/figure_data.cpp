#include "experiments/tables/figure_data.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/tables/caption.hpp"
#include "experiments/tables/figure_rows.hpp"
#include "experiments/tables/row_steps.hpp"
#include "experiments/tables/table.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

struct Dot {
  Json x;
  std::optional<double> y, low, high, bound;
  std::string point;  // the record's point_id
};

struct Series {
  std::string name;
  std::string shown;  // the name as the legend has it: "N = 32", where the name is a number
  std::string origin;
  std::vector<Dot> dots;
};

struct Panel {
  std::string title;
  std::vector<Series> series;
};

std::optional<double> number(const Row& row, const std::string& column) {
  const auto found = column.empty() ? row.end() : row.find(column);
  if (found == row.end() || !found->second.is_number()) return {};
  return found->second.get<double>();
}

/// The name of a row's series; a number is told with its column.
std::string shown_name(const std::string& column, const Row& row) {
  const std::string name = cell_text(row, column);
  const auto found = row.find(column);
  if (found == row.end() || !found->second.is_number()) return name;
  return fmt::format("{} = {}", column == "n" ? "N" : column, name);
}

template <class T, class Key>
T& find_or_add(std::vector<T>& list, const Key& matches, T fresh) {
  const auto found = std::ranges::find_if(list, matches);
  if (found != list.end()) return *found;
  list.push_back(std::move(fresh));
  return list.back();
}

std::vector<Panel> collect(const Figure& figure, const std::vector<Row>& rows,
                           const Config& config) {
  std::vector<Panel> panels;
  for (const Row& row : rows) {
    const std::string title =
        figure.panel.empty() ? "" : figure.panel + " = " + cell_text(row, figure.panel);
    Panel& panel = find_or_add(
        panels, [&](const Panel& p) { return p.title == title; }, Panel{title, {}});
    const std::string name = cell_text(row, figure.series);
    const std::string origin = value_origin(row, figure.y, config);
    Series& series = find_or_add(
        panel.series, [&](const Series& s) { return s.name == name && s.origin == origin; },
        Series{name, shown_name(figure.series, row), origin, {}});
    const Json& x = row.at(figure.x);
    // A scatter holds two measures against each other: cases may agree in one of them.
    require(figure.kind == "scatter" ||
                std::ranges::none_of(series.dots, [&](const Dot& dot) { return dot.x == x; }),
            "{}: figure '{}' has two rows for {} = {} in series {}: narrow its 'where', or add a "
            "panel",
            figure.place, figure.id, figure.x, cell_text(row, figure.x), name);
    series.dots.push_back({x, number(row, figure.y), number(row, figure.low),
                           number(row, figure.high), number(row, figure.bound),
                           cell_text(row, "point_id")});
  }
  return panels;
}

/// Origin -> x -> what the series named is there.
using Units = std::map<std::string, std::map<std::string, double>>;

Units units_of(const Figure& figure, const Panel& panel) {
  Units units;
  for (const Series& series : panel.series)
    if (series.name == figure.normalise)
      for (const Dot& dot : series.dots)
        if (dot.y && *dot.y > 0) units[series.origin][dot.x.dump()] = *dot.y;
  require<NoRows>(!units.empty(), "{}: figure '{}' is normalised to '{}', which has no values{}",
                  figure.place, figure.id, figure.normalise,
                  panel.title.empty() ? "" : " where " + panel.title);
  return units;
}

/// Divides every series by the one named, x by x, within a panel: the one of its own origin, or the
/// only one there is. Where that series has no value at an x, no other keeps one.
void normalise(const Figure& figure, std::vector<Panel>& panels) {
  for (Panel& panel : panels) {
    const Units units = units_of(figure, panel);
    for (Series& series : panel.series) {
      auto unit = units.find(series.origin);
      require(unit != units.end() || units.size() == 1,
              "{}: figure '{}' is normalised to '{}', which has several origins, none of them that "
              "of {} ({})",
              figure.place, figure.id, figure.normalise, series.name, series.origin);
      if (unit == units.end()) unit = units.begin();
      for (Dot& dot : series.dots) {
        const auto found = unit->second.find(dot.x.dump());
        for (std::optional<double>* value : {&dot.y, &dot.low, &dot.high, &dot.bound})
          if (*value)
            *value = found == unit->second.end() ? std::nullopt
                                                 : std::optional<double>(**value / found->second);
      }
    }
  }
}

/// Records write infinity as a number that JSON has.
constexpr double kInfinite = 1e300;

/// The reason why a value has no place on the axis; empty when it has one.
std::string no_place(const Figure& figure, double y) {
  if (std::abs(y) >= kInfinite) return "infinite";
  if (figure.y_scale != "log" || y > 0) return "";
  return y < 0 ? "below 0" : "exactly 0";
}

/// Such values are missing, and the figure says why.
Json take_what_has_no_place(const Figure& figure, std::vector<Panel>& panels) {
  Json missing = Json::array();
  for (Panel& panel : panels) {
    for (Series& series : panel.series) {
      for (Dot& dot : series.dots) {
        if (dot.bound && !no_place(figure, *dot.bound).empty()) dot.bound.reset();
        const std::string reason = dot.y ? no_place(figure, *dot.y) : "";
        if (reason.empty()) continue;
        missing.push_back({{"series", series.shown}, {"x", dot.x}, {"reason", reason}});
        dot.y = dot.low = dot.high = std::nullopt;
      }
    }
  }
  return missing;
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json series_json(const std::vector<Series>& all) {
  Json list = Json::array();
  for (const Series& series : all) {
    Json points = Json::array();
    for (const Dot& dot : series.dots) {
      Json point{{"x", dot.x}, {"y", optional_json(dot.y)}};
      if (dot.low && dot.high) {
        point["low"] = *dot.low;
        point["high"] = *dot.high;
      }
      if (dot.bound) point["bound"] = *dot.bound;
      if (!dot.point.empty()) point["point"] = dot.point;
      points.push_back(std::move(point));
    }
    list.push_back({{"name", series.shown}, {"origin", series.origin}, {"points", points}});
  }
  return list;
}

std::string csv_of(const Figure& figure, const std::vector<Panel>& panels) {
  std::vector<Row> rows;
  for (const Panel& panel : panels) {
    for (const Series& series : panel.series) {
      for (const Dot& dot : series.dots) {
        Row row{{"panel", panel.title},
                {"series", series.name},
                {"origin", series.origin},
                {figure.x, dot.x}};
        if (dot.y) row[figure.y] = *dot.y;
        if (dot.low) row["low"] = *dot.low;
        if (dot.high) row["high"] = *dot.high;
        if (dot.bound) row["bound"] = *dot.bound;
        rows.push_back(std::move(row));
      }
    }
  }
  std::vector<std::string> columns{"panel", "series", "origin", figure.x, figure.y, "low", "high"};
  if (!figure.bound.empty()) columns.push_back("bound");
  return csv_table(rows, columns);
}

std::string y_label(const Figure& figure, const RowRefs& drawn) {
  if (!figure.y_label.empty()) return figure.y_label;
  const std::string label = axis_label(figure.y, drawn);
  if (figure.normalise.empty()) return label;
  return fmt::format("{}, {} = 1", label.substr(0, label.find(" (")), figure.normalise);
}

}  // namespace

FigureData make_figure_data(const Figure& figure, const std::vector<Row>& rows,
                            const Config& config, const std::string& provenance) {
  for (const std::string& column :
       {figure.x, figure.y, figure.series, figure.panel, figure.low, figure.high, figure.bound})
    if (!column.empty()) check_column(column, rows, config, figure.place);
  for (const auto& [column, setting] : figure.where)
    check_column(column, rows, config, setting.place);

  // Rows that ran but have no x or y (a closed library has no emulation, an emulation no time) are
  // not this figure's.
  RowRefs drawn = select_refs(rows, figure.where);
  std::erase_if(
      drawn, [&](const Row* row) { return !row->contains(figure.x) || !number(*row, figure.y); });
  require<NoRows>(!drawn.empty(), "{}: figure '{}' has no rows: nothing it asks for has run ok",
                  figure.place, figure.id);
  std::vector<Row> relative;
  if (!figure.relative_to.empty()) {
    relative = relative_rows(figure, drawn, rows, config);
    drawn = refs_of(relative);
  }
  require<NoRows>(!drawn.empty(), "{}: figure '{}' has no row that relative_to has a partner for",
                  figure.place, figure.id);
  std::vector<Row> placed;
  if (!figure.statistic.empty())
    placed = statistic_rows(figure, drawn, config);
  else
    for (const Row* row : drawn) placed.push_back(*row);
  order_by_labels(figure, placed, config);
  std::vector<Panel> panels = collect(figure, placed, config);
  if (!figure.normalise.empty()) normalise(figure, panels);

  FigureData data;
  data.matrices = distinct("matrix", drawn).size();
  data.csv = csv_of(figure, panels);
  const Json missing = take_what_has_no_place(figure, panels);
  data.json = {{"schema", 1},
               {"id", figure.id},
               {"kind", figure.kind},
               {"title", figure.title},
               {"caption", figure.caption},
               {"facts", derived_caption(figure, rows, drawn)},
               {"x",
                {{"label", figure.x_label.empty() ? axis_label(figure.x, drawn) : figure.x_label},
                 {"scale", figure.x_scale.empty() ? axis_scale(figure.x, drawn) : figure.x_scale}}},
               {"y", {{"label", y_label(figure, drawn)}, {"scale", figure.y_scale}}},
               {"provenance", provenance}};
  if (figure.panel.empty()) {
    data.json["series"] = series_json(panels.front().series);
  } else {
    for (const Panel& panel : panels)
      data.json["panels"].push_back(
          {{"title", panel.title}, {"series", series_json(panel.series)}});
  }
  if (!figure.normalise.empty())
    data.json["reference"] = {{"y", 1.0}, {"label", figure.normalise + " = 1"}};
  if (figure.reference)
    data.json["reference"] = {{"y", *figure.reference}, {"label", figure.reference_label}};
  if (!missing.empty()) data.json["missing"] = missing;
  return data;
}

WantedRows wanted_by_figures(const Config& config, const std::vector<std::string>& only) {
  // What rows are told apart by, and what figures without a column for it say.
  WantedRows wanted{{"matrix", "status", "origin", "n", "kernel", "backend", "device", "l2"}, {}};
  wanted.columns.insert(kConditions.begin(), kConditions.end());
  const auto add = [&](const Settings& where) {
    for (const auto& [column, setting] : where) wanted.columns.insert(column);
  };
  for (const Figure& figure : config.figures) {
    if (!only.empty() && std::ranges::find(only, figure.id) == only.end()) continue;
    for (const std::string& column :
         {figure.x, figure.y, figure.series, figure.panel, figure.low, figure.high, figure.bound})
      wanted.columns.insert(column);
    if (figure.statistic.empty()) wanted.columns.insert("point_id");  // others are of many points
    add(figure.where);
    add(figure.relative_to);
    wanted.any_of.push_back(&figure.where);
    if (!figure.relative_to.empty()) wanted.any_of.push_back(&figure.relative_to);
  }
  for (const Join& join : config.joins) {
    wanted.columns.insert(join.on.begin(), join.on.end());
    wanted.columns.insert(join.columns.begin(), join.columns.end());
    add(join.from);
  }
  for (const Derive& derive : config.derives) {
    if (derive.of.empty())
      for (const std::string& variable : variables_of(derive)) wanted.columns.insert(variable);
    wanted.columns.insert(derive.of);
  }
  for (const Unfold& unfold : config.unfolds) wanted.columns.insert(unfold.of);
  for (const Reduce& reduce : config.reduces) {
    wanted.columns.insert(reduce.keep.begin(), reduce.keep.end());
    wanted.columns.insert({reduce.by, reduce.column});
    add(reduce.where);
  }
  return wanted;
}

std::string machine_of(const Json& env) {
  if (env.contains("gpu") && env["gpu"].value("available", false))
    return env["gpu"].value("name", "");
  return env.contains("host") ? env["host"].value("cpu", "") : "";
}

std::string provenance_text(const RecordSet& records) {
  // Not every run found something left to do.
  std::set<std::string> used, parts;
  for (const Json& record : records.points) used.insert(record.value("env_id", ""));
  for (const auto& [id, env] : records.environments) {
    if (!used.contains(id)) continue;
    const Json build = env.value("build", Json::object());
    parts.insert(fmt::format("{}, {}, commit {}{}", machine_of(env),
                             env.value("started_at", "").substr(0, 10), build.value("commit", "?"),
                             build.value("dirty", false) ? "+changes" : ""));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace tessera
