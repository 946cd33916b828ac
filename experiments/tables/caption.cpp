#include "experiments/tables/caption.hpp"

#include <algorithm>
#include <set>

#include "experiments/records/columns.hpp"
#include "experiments/tables/distinct_texts.hpp"
#include "experiments/tables/row_steps.hpp"

namespace tessera {
namespace {

constexpr std::size_t kFew = 4;    // values of a condition that are listed
constexpr double kLogFactor = 16;  // a span from which an axis of numbers is logarithmic

/// The texts of each column, as distinct() has them. All are found while a row is at hand.
std::vector<std::vector<std::string>> distinct_of(const std::vector<std::string>& columns,
                                                  const RowRefs& rows) {
  std::vector<DistinctTexts> known(columns.begin(), columns.end());
  for (const Row* row : rows)
    for (DistinctTexts& texts : known) texts.number(*row);
  std::vector<std::vector<std::string>> all;
  for (const DistinctTexts& texts : known) {
    all.push_back(texts.texts());
    std::erase(all.back(), "");
  }
  return all;
}

/// "a", "a or b", "a, "b, with a comma" or c"
std::string listed(std::vector<std::string> values, const std::string& last) {
  for (std::string& value : values)
    if (value.find(", ") != std::string::npos && value.find('(') == std::string::npos)
      value = fmt::format("\"{}\"", value);
  if (values.size() < 2) return values.empty() ? "" : values.front();
  return fmt::format("{} {} {}", fmt::join(values.begin(), values.end() - 1, ", "), last,
                     values.back());
}

bool is_shown(const Figure& figure, const std::string& column) {
  return column == figure.x || column == figure.series || column == figure.panel;
}

/// "24 matrices", and of those that the selection names, how many are absent, with the reason.
std::string matrices_text(const Figure& figure, const std::vector<Row>& rows,
                          const RowRefs& drawn) {
  const std::vector<std::string> matrices = distinct("matrix", drawn);
  const std::set<std::string> shown(matrices.begin(), matrices.end());
  std::map<std::string, std::string> absent;  // matrix -> its status
  Settings where = figure.where;
  where.erase("status");
  for (const Row& row : rows)
    if (cell_text(row, "status") != "ok" && matches(row, where) &&
        !shown.contains(cell_text(row, "matrix")))
      absent[cell_text(row, "matrix")] = cell_text(row, "status");
  std::map<std::string, int> reasons;
  for (const auto& [matrix, status] : absent) ++reasons[status];
  std::vector<std::string> told;
  for (const auto& [status, count] : reasons)
    told.push_back(fmt::format("{} more {}", count, status));
  const std::string count = counted(matrices.size(), "matrix", "matrices");
  return told.empty() ? count : fmt::format("{} ({})", count, fmt::join(told, ", "));
}

/// The values that a where asks for.
std::vector<std::string> asked(const Setting& setting) {
  std::vector<std::string> values;
  for (const Json& value : setting.value.is_array() ? setting.value : Json::array({setting.value}))
    values.push_back(cell_text({{"", value}}, ""));
  return values;
}

/// "backend = gpu, kernel = a or b, case = those shown, without c": a selection along an axis, the
/// panels or the series is in the picture, so that only what is absent there has to be named.
std::string selection_text(const Figure& figure, const RowRefs& drawn) {
  std::vector<std::string> parts;
  for (const auto& [column, setting] : figure.where) {
    const std::vector<std::string> wanted = asked(setting);
    if (!is_shown(figure, column) || wanted.size() <= 1) {
      parts.push_back(fmt::format("{} = {}", column, listed(wanted, "or")));
      continue;
    }
    const std::vector<std::string> shown = distinct(column, drawn);
    std::vector<std::string> absent;
    std::ranges::copy_if(wanted, std::back_inserter(absent), [&](const std::string& value) {
      return std::ranges::find(shown, value) == shown.end();
    });
    parts.push_back(
        fmt::format("{} = those shown{}", column,
                    absent.empty() ? "" : fmt::format(", without {}", listed(absent, "and"))));
  }
  return parts.empty() ? "" : fmt::format(" Selected: {}.", fmt::join(parts, ", "));
}

/// "N = 32 or 128", "order of the file", "warm L2": what all of a figure has in common; "" for a
/// column that says nothing about it.
std::string condition_text(const std::string& column, const std::vector<std::string>& values,
                           const RowRefs& drawn) {
  const bool is_name =
      column == "kernel" || column == "format";  // several are told apart elsewhere
  if (values.empty() || values.size() > (is_name ? 1 : kFew)) return "";
  const bool is_of_all =
      std::ranges::all_of(drawn, [&](const Row* row) { return row->contains(column); });
  if (column.find('.') != std::string::npos && !is_of_all) return "";  // of some kernels alone
  const std::string text = listed(values, "or");
  if (column == "n") return fmt::format("N = {}", text);
  if (column == "reorder")
    return text == "none" ? "order of the file" : fmt::format("order {}", text);
  if (column == "l2") return fmt::format("{} L2", text);
  if (column == "right") return text == "self" ? "C = A A" : fmt::format("B = {}", text);
  if (column == "values") return text == "auto" ? "" : fmt::format("values {}", text);
  if (column == "threads") return fmt::format("{} CPU threads", text);
  if (column == "device" && distinct("origin", drawn) == std::vector<std::string>{"measured"})
    return "";  // the provenance names the GPU
  return fmt::format("{} {}", column.substr(column.rfind('.') + 1), text);
}

/// The documentation of a column up to its first comma, colon or semicolon; "" for a column that no
/// record has, and for names, which need none.
std::string short_meaning(const std::string& column) {
  const auto known = row_columns().find(column);
  if (known == row_columns().end()) return "";
  const std::string text = known->second.substr(0, known->second.find_first_of(",:;"));
  return column.find('.') == std::string::npos ? text : "";
}

std::string unit_of(const std::string& column) {
  const Column* known = find_column(column);
  std::string unit = known == nullptr ? "" : known->unit;
  if (unit == "us") unit = "\u00b5s";
  return unit;
}

}  // namespace

std::string counted(std::size_t count, const std::string& one, const std::string& many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::vector<std::string> distinct(const std::string& column, const RowRefs& rows) {
  return distinct_of({column}, rows).front();
}

std::string derived_caption(const Figure& figure, const std::vector<Row>& rows,
                            const RowRefs& drawn) {
  std::string text = matrices_text(figure, rows, drawn);
  std::vector<std::string> conditions(kConditions.begin(), kConditions.end());
  std::erase_if(conditions, [&](const std::string& column) {
    return is_shown(figure, column) || figure.where.contains(column);
  });
  const std::vector<std::vector<std::string>> values = distinct_of(conditions, drawn);
  for (std::size_t c = 0; c < conditions.size(); ++c) {
    const std::string condition = condition_text(conditions[c], values[c], drawn);
    if (!condition.empty()) text += ", " + condition;
  }
  text += "." + selection_text(figure, drawn);
  if (!figure.normalise.empty())
    text += fmt::format(" Relative to {} at the same {}.", figure.normalise, figure.x);
  if (!figure.low.empty() || !figure.high.empty())
    text += fmt::format(" Whiskers: from {} to {}.", axis_label(figure.low, drawn),
                        axis_label(figure.high, drawn));
  if (!figure.bound.empty()) text += fmt::format(" Bound: {}.", axis_label(figure.bound, drawn));
  return text;
}

std::string axis_label(const std::string& column, const RowRefs& drawn) {
  std::string text = axis_scale(column, drawn) == "category" ? "" : short_meaning(column);
  if (text.empty()) {
    text = column;
    std::ranges::replace(text, '_', ' ');
  }
  const std::string unit = unit_of(column);
  return unit.empty() ? text : fmt::format("{} ({})", text, unit);
}

std::string axis_scale(const std::string& column, const RowRefs& drawn) {
  const std::string& name = column_name(column);
  double least = 0, most = 0;
  bool is_first = true;
  for (const Row* row : drawn) {
    const auto found = row->find_name(name);
    if (found == row->end() || found->second.is_null()) continue;
    if (!found->second.is_number()) return "category";
    const auto value = found->second.get<double>();
    least = is_first ? value : std::min(least, value);
    most = is_first ? value : std::max(most, value);
    is_first = false;
  }
  if (is_first) return "category";
  return least > 0 && most >= kLogFactor * least ? "log" : "linear";
}

}  // namespace tessera
