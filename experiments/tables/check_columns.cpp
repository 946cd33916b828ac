#include "experiments/tables/check_columns.hpp"

#include "experiments/tables/row_steps.hpp"

namespace tessera {
namespace {

void check_where(const Settings& where, const Config& config) {
  for (const auto& [column, setting] : where) check_column(column, {}, config, setting.place);
}

}  // namespace

void check_columns(const Config& config) {
  std::vector<Row> none;  // the steps check their columns before they look at rows
  for (const Join& join : config.joins) join_rows(join, config, none);
  for (const Derive& derive : config.derives) derive_column(derive, config, none);
  for (const Unfold& unfold : config.unfolds) unfold_rows(unfold, config, none);
  for (const Reduce& reduce : config.reduces) reduce_rows(reduce, config, none);
  for (const Table& table : config.table) {
    for (const std::string& column : table.columns) check_column(column, none, config, table.place);
    check_where(table.where, config);
  }
  for (const Figure& figure : config.figures) {
    for (const std::string& column :
         {figure.x, figure.y, figure.series, figure.panel, figure.low, figure.high, figure.bound})
      if (!column.empty()) check_column(column, none, config, figure.place);
    check_where(figure.where, config);
    check_where(figure.relative_to, config);
  }
  for (const Expect& expect : config.expects) {
    check_column(expect.column, none, config, expect.place);
    if (!expect.with.empty()) check_column(expect.with, none, config, expect.place);
    check_where(expect.where, config);
    check_where(expect.relative_to, config);
  }
}

}  // namespace tessera
