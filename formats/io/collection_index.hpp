// The index of the SuiteSparse Matrix Collection (T. Davis, Y. Hu): a line of statistics a matrix.
//
// The collection publishes it as a CSV file, sparse.tamu.edu/files/ssstats.csv: the number of
// matrices, the date of the last revision, then for each matrix its group, name, rows, columns and
// nonzeros, 1 or 0 for real, for binary, for a 2D or 3D problem and for positive definite, the
// symmetry of pattern and values (0 to 1), and its kind. fetch_collection_index() (fetch.hpp)
// downloads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct CollectionMatrix {
  std::string group;
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t nnz = 0;           // explicit zeros left out
  bool real = false;              // false: complex
  bool binary = false;            // every nonzero is 1
  bool mesh = false;              // of a 2D or 3D problem
  bool posdef = false;            // positive definite
  double pattern_symmetry = 0;    // share of the nonzeros that have a partner, 0 to 1
  double numerical_symmetry = 0;  // share of them with a partner of the same value, 0 to 1
  std::string kind;               // "structural problem"

  std::string full_name() const { return group + "/" + name; }
};

struct CollectionIndex {
  std::string path;
  std::string revised;  // date of the last revision, as the file has it
  std::vector<CollectionMatrix> matrices;
};

/// The place that fetch_collection_index() downloads the index to; "" without a cache folder.
std::string fetched_index_path();

/// The index of this machine: $TESSERA_COLLECTION_INDEX, else the fetched one; nothing when there
/// is neither. Throws an Error with file and line for a file that is no whole index, and for a
/// $TESSERA_COLLECTION_INDEX that is not there.
std::optional<CollectionIndex> collection_index();

}  // namespace tessera
