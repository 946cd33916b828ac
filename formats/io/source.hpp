// The names of matrices, and loading a matrix by its name.
//
//   data/cora.npz                        a file
//   cora                                 <dir>/cora.<any known ending> in one of the data folders
//   rmat(scale=14, edge_factor=8)        a generator with parameters
//   mycielskian14, Trefethen_2000        a trailing number is the generator's first parameter
//   shuffle(of=mycielskian12, seed=3)    a parameter may itself be a matrix name
//   HB/bcsstk17, bcsstk17                a SuiteSparse matrix from `tessera matrix fetch`
//   reddit or twin(like=reddit)          the first of them that is here
//
// Data folders: those of $TESSERA_DATA (colon-separated), then the downloads of the cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"

namespace tessera {

struct MatrixSource {
  std::string name;       // short, for tables and figures: "cora", "rmat(scale=14)"
  std::string canonical;  // complete: the absolute path, or the generator with every parameter
  std::string reference;  // for points: a bare name unchanged, since another machine may have the
                          // file elsewhere; anything else in its canonical form
  std::string path;       // of the file; empty when generated
  std::string generator;  // name of the generator; empty when read
  Params params;          // of the generator
  bool synthetic() const { return path.empty(); }
};

/// No matrix of that name is on this machine. The message lists the searched places.
class MatrixAbsent : public Unsupported {
 public:
  MatrixAbsent(std::string_view matrix, const std::string& message)
      : Unsupported(message), matrix_(matrix) {}

  const std::string& matrix() const { return matrix_; }

 private:
  std::string matrix_;
};

/// Resolves a name without loading the matrix. Throws MatrixAbsent.
MatrixSource find_matrix(std::string_view spec);

/// MatrixSource::reference, also for a matrix whose file is on another machine: the name in points
/// does not depend on the place of the file.
std::string matrix_reference(std::string_view spec);

struct LoadedMatrix {
  MatrixSource source;
  CsrMatrix matrix;
  std::string content_hash;
  bool from_cache = false;
  double load_s = 0;  // wall time of this load: parsing, generating or mapping
};

/// Loads the matrix, through the binary cache when `use_cache` is set. Throws the Errors of
/// find_matrix, of the readers and of the generators.
LoadedMatrix load_matrix(const MatrixSource& source, bool use_cache = true);
LoadedMatrix load_matrix(std::string_view spec, bool use_cache = true);

/// The names at hand: generators, files in the data folders, and fetched matrices by their name
/// without the collection.
std::vector<std::string> known_matrix_names();

/// The content hash that an earlier load left in the cache; "" when there is none.
std::string known_content_hash(const MatrixSource& source);

}  // namespace tessera
