#include "experiments/tables/records_csv.hpp"

#include <algorithm>
#include <iterator>
#include <span>

#include "experiments/tables/table.hpp"
#include "formats/base/hash.hpp"

namespace tessera {
namespace {

/// The name of a record's matrix: short where the matrix was loaded.
std::string matrix_of(const JsonLine& record) {
  const JsonLine::Value* name = record.find({"matrix", "name"});
  return JsonLine::text_of(name != nullptr ? name : record.find({"params", "matrix"}));
}

void append_cell(std::string& line, const RecordCell& cell) {
  using Kind = JsonLine::Kind;
  const bool is_text = cell.kind == Kind::kText;
  const std::string_view text =
      is_text ? cell.text.substr(1, cell.text.size() - 2) : cell.text;  // without its quotes
  if (cell.kind == Kind::kInteger || cell.kind == Kind::kFloat)
    line += text;
  else if (is_text && text.find('\\') != text.npos)
    append_csv_cell(line, JsonLine::text_of(cell.text));
  else
    append_csv_cell(line, text);
}

}  // namespace

std::uint64_t shape_of(const JsonLine& record) {
  const std::uint64_t structure = record.structure();
  std::string shape(reinterpret_cast<const char*>(&structure), sizeof(structure));
  for (const JsonLine::Value* value :
       {record.find({"status"}), record.find({"env_id"}), record.find({"params", "kernel", "name"}),
        record.find({"params", "values"}), record.find({"stages"})})
    if (value != nullptr) shape += value->text;
  return checksum(std::as_bytes(std::span(shape)));
}

const std::vector<RecordCell>& RecordsCsv::cells_of(const JsonLine& record) {
  const auto environment = environments_->find(record.text_at({"env_id"}));
  return cells_.read(matrix_of(record), record,
                     environment == environments_->end() ? nullptr : &environment->second);
}

std::set<std::string> RecordsCsv::columns_of(const JsonLine& record) {
  std::set<std::string> columns;
  for (const RecordCell& cell : cells_of(record)) columns.insert(cells_.columns()[cell.column]);
  return columns;
}

std::string RecordsCsv::header(const std::set<std::string>& columns) {
  header_ = columns;
  ranks_.clear();
  places_.assign(columns.size(), nullptr);
  std::string line;
  for (const std::string& column : columns) line += csv_cell(column) + ",";
  if (!line.empty()) line.pop_back();
  return line + "\n";
}

const std::string& RecordsCsv::row(const JsonLine& record, std::set<std::string>& missing) {
  std::ranges::fill(places_, nullptr);
  const std::vector<RecordCell>& cells = cells_of(record);
  for (std::size_t column = ranks_.size(); column < cells_.columns().size(); ++column) {
    const auto found = header_.find(cells_.columns()[column]);
    const auto rank = found == header_.end() ? -1 : std::distance(header_.begin(), found);
    ranks_.push_back(static_cast<std::uint32_t>(rank + 1));
  }
  for (const RecordCell& cell : cells) {
    if (ranks_[cell.column] == 0)
      missing.insert(cells_.columns()[cell.column]);
    else
      places_[ranks_[cell.column] - 1] = &cell;
  }
  line_.clear();
  for (const RecordCell* cell : places_) {
    if (cell != nullptr) append_cell(line_, *cell);
    line_ += ',';
  }
  if (!line_.empty()) line_.pop_back();
  line_ += '\n';
  return line_;
}

}  // namespace tessera
