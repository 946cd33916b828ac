// Named sets of matrices: "@acc_spmm_table2" in a config stands for the matrices of
// sets/acc_spmm_table2.toml, which holds [set] name, title, matrix = [...] and stand_in = [...]. A
// set with a `query` in place of `matrix` has the matrices of the SuiteSparse Matrix Collection
// that meet it (collection_query.hpp).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/config.hpp"
#include "formats/io/collection_index.hpp"

namespace tessera {

class MatrixSets {
 public:
  /// Sets are looked for among `included` first, then as <folder>/<name>.toml. With `stand_ins`, a
  /// set that names stand-ins has these for its matrices.
  MatrixSets(const std::vector<Node>& included, std::vector<std::string> folders, bool stand_ins);

  /// The matrices a value of the axis `matrix` stands for: itself, or those of the set "@name",
  /// sets of sets included. Throws an Error with the nearest name for an unknown set, and with the
  /// chain for a set that contains itself; CollectionIndexAbsent for a query without an index.
  std::vector<Setting> expand(const Setting& value);

  /// The sets expanded so far: name -> matrices, as the files have them.
  const Json& used() const { return used_; }

  /// Those of them whose paper says how many matrices it had.
  const std::vector<CountedSet>& counted() const { return counted_; }

 private:
  const Node& find(const std::string& name, const SourceLocation& place);
  void add(const Node& set);
  void expand_into(const Setting& value, std::vector<std::string>& chain,
                   std::vector<Setting>& matrices);
  std::vector<std::string> known() const;
  Node matrices_that_meet(const Node& query, const std::string& name);
  void count(const Node& set, const std::string& name, const Node& members);

  std::map<std::string, Node> sets_;
  std::vector<std::string> folders_;
  bool stand_ins_;
  std::int64_t members_ = 0;  // of all sets expanded so far, and these sets
  Json used_ = Json::object();
  std::vector<CountedSet> counted_;
  std::optional<CollectionIndex> index_;  // read for the first query
};

}  // namespace tessera
