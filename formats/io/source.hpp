// How a person names a matrix, and how that name becomes a matrix.
//
//   data/cora.npz                        a file
//   cora                                 <dir>/cora.<any known ending> in one of the data folders
//   rmat(scale=14, edge_factor=8)        a generator with parameters
//   mycielskian14, Trefethen_2000        a trailing number is the generator's first parameter
//   shuffle(of=mycielskian12, seed=3)    a parameter may itself be a matrix name
//   HB/bcsstk17                          a SuiteSparse matrix that `tessera matrix fetch` has
//   brought
//
// Data folders: those of $TESSERA_DATA (colon-separated), then the downloads of the cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/base/matrix.hpp"
#include "formats/base/params.hpp"

namespace tessera {

struct MatrixSource {
  std::string name;       // short, for tables and figures: "cora", "rmat(scale=14)"
  std::string canonical;  // complete: the absolute path, or the generator with every parameter
  std::string reference;  // for points: a bare name as given, which other machines may find in
                          // another place; anything else in its canonical form
  std::string path;       // of the file; empty when generated
  std::string generator;  // name of the generator; empty when read
  Params params;          // of the generator
  bool synthetic() const { return path.empty(); }
};

/// Finds out what a name means without loading it. Throws an Error that says where it looked.
MatrixSource find_matrix(std::string_view spec);

/// MatrixSource::reference, also of a matrix whose file is on another machine: how points call it
/// does not depend on where it is.
std::string matrix_reference(std::string_view spec);

struct LoadedMatrix {
  MatrixSource source;
  CsrMatrix matrix;
  std::string content_hash;
  bool from_cache = false;
  double load_s = 0;  // wall time of this load: parsing, generating or mapping
};

/// Loads it, through the binary cache unless told otherwise.
LoadedMatrix load_matrix(const MatrixSource& source, bool use_cache = true);
LoadedMatrix load_matrix(std::string_view spec, bool use_cache = true);

/// The content hash without loading, when an earlier load has left it in the cache; else "".
std::string known_content_hash(const MatrixSource& source);

}  // namespace tessera
