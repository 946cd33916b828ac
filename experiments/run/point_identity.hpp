// The identity of a point's result: the request, the versions of the code that decides values and
// speed, and the content of the matrices.
#pragma once

#include <string>

#include "experiments/points/point.hpp"
#include "experiments/records/record.hpp"

namespace tessera {

/// The parts of an identity that are known before a matrix is loaded. Throws an Error for a variant
/// that is not registered.
class PointIdentity {
 public:
  explicit PointIdentity(const Point& point);

  const Json& params() const { return params_; }
  const VersionsPart& versions() const { return versions_; }

  /// The identity of the result for the content of A, and of a sparse B that is a matrix of its own
  /// (joint_hash()). Without content, "", it is that of the request alone.
  std::string point_id(const std::string& content_hash) const;

 private:
  Json params_;
  VersionsPart versions_;
};

/// True when B is a matrix of its own that has to be loaded; and the same for a mask.
bool has_right_matrix(const Point& point);
bool has_mask_matrix(const Point& point);

/// The hash of all matrices of a point; `hash_of` returns that of one.
template <class HashOf>
std::string joint_hash(const Point& point, HashOf hash_of) {
  std::string hash = hash_of(point.matrix);
  if (has_right_matrix(point)) hash += " x " + hash_of(sparse_product(point).right);
  if (has_mask_matrix(point)) hash += " under " + hash_of(sparse_product(point).mask);
  return hash;
}

}  // namespace tessera
