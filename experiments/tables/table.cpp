#include "experiments/tables/table.hpp"

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

/// For people: four significant digits, thousands as they are.
std::string short_text(const Row& row, const std::string& column) {
  const auto found = row.find(column);
  if (found == row.end() || !found->second.is_number_float()) return cell_text(row, column);
  const double value = found->second.get<double>();
  const bool is_thousands = std::abs(value) >= 1e3 && std::abs(value) < 1e9;
  return is_thousands ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

bool is_number(const Row& row, const std::string& column) {
  const auto found = row.find(column);
  return found != row.end() && found->second.is_number();
}

/// Characters, not bytes: names may hold any UTF-8.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string csv_cell(std::string_view text) {
  std::string cell;
  append_csv_cell(cell, text);
  return cell;
}

void append_csv_cell(std::string& line, std::string_view text) {
  const auto needs_quotes = [](char c) { return c == ',' || c == '"' || c == '\n' || c == '\r'; };
  if (std::ranges::none_of(text, needs_quotes)) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += c;
    line += c;
  }
  line += '"';
}

std::string text_table(const std::vector<Row>& rows, const std::vector<std::string>& columns,
                       const std::set<std::string>& aligned_right) {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (const std::string& column : columns) {
    std::size_t width = width_of(column);
    for (const Row& row : rows) width = std::max(width, width_of(short_text(row, column)));
    widths.push_back(width);
    right.push_back(
        aligned_right.contains(column) ||
        std::ranges::any_of(rows, [&](const Row& row) { return is_number(row, column); }));
  }
  std::string text;
  const auto add_line = [&](auto cell_of, char fill) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::string cell = cell_of(columns[c]);
      const std::string padding(widths[c] - width_of(cell), fill);
      line += (right[c] ? padding + cell : cell + padding) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([](const std::string& column) { return column; }, ' ');
  add_line([](const std::string&) { return std::string(); }, '-');
  for (const Row& row : rows)
    add_line([&](const std::string& column) { return short_text(row, column); }, ' ');
  return text;
}

std::string csv_table(const std::vector<Row>& rows, const std::vector<std::string>& columns) {
  std::vector<std::string> header;
  for (const std::string& column : columns) header.push_back(csv_cell(column));
  std::string text = fmt::format("{}\n", fmt::join(header, ","));
  for (const Row& row : rows) {
    std::string line;
    for (const std::string& column : columns) {
      const auto found = row.find(column);
      const bool number = found != row.end() && found->second.is_number();
      line += (number ? found->second.dump() : csv_cell(cell_text(row, column))) + ",";
    }
    line.back() = '\n';
    text += line;
  }
  return text;
}

}  // namespace tessera
