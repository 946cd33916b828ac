#include "experiments/config/collection_query.hpp"

#include <muParser.h>

#include <algorithm>
#include <map>

#include "experiments/config/expression.hpp"

namespace tessera {
namespace {

using Variables = std::map<std::string, double>;

void assign(const CollectionMatrix& matrix, Variables& variables) {
  variables["rows"] = static_cast<double>(matrix.rows);
  variables["cols"] = static_cast<double>(matrix.cols);
  variables["nnz"] = static_cast<double>(matrix.nnz);
  variables["real"] = matrix.real ? 1 : 0;
  variables["binary"] = matrix.binary ? 1 : 0;
  variables["mesh"] = matrix.mesh ? 1 : 0;
  variables["posdef"] = matrix.posdef ? 1 : 0;
  variables["pattern_symmetry"] = matrix.pattern_symmetry;
  variables["numerical_symmetry"] = matrix.numerical_symmetry;
}

}  // namespace

std::vector<std::string> select_matrices(const CollectionIndex& index, const std::string& query,
                                         const std::string& place) {
  std::map<std::string, int> groups;  // that have a matrix of the name
  for (const CollectionMatrix& matrix : index.matrices) ++groups[matrix.name];
  refuse_assignment(query, place);

  std::vector<const CollectionMatrix*> chosen;
  try {
    mu::Parser parser;
    Variables variables;
    assign({}, variables);
    for (auto& [name, value] : variables) parser.DefineVar(name, &value);
    parser.SetExpr(query);
    for (const CollectionMatrix& matrix : index.matrices) {
      assign(matrix, variables);
      if (parser.Eval() != 0) chosen.push_back(&matrix);
    }
  } catch (const mu::Parser::exception_type& error) {
    throw Error(fmt::format("{}: '{}': {}", place, query, error.GetMsg()));
  }
  std::ranges::stable_sort(chosen, {}, &CollectionMatrix::nnz);

  std::vector<std::string> names;
  for (const CollectionMatrix* matrix : chosen)
    names.push_back(groups.at(matrix->name) == 1 ? matrix->name : matrix->full_name());
  return names;
}

}  // namespace tessera
