// One point, from its request to its record: load, reorder, pack, run, put back in order, check;
// or, where B is sparse too: load both, reorder, run, check; or, where only A is packed: load,
// reorder, pack, unpack, compare; or, where only an order is wanted: load, reorder, describe.
//
// What the points of one matrix share (the matrix, its orders, packed forms, B, emulated results)
// is kept between calls, one of each kind: plans are ordered so that this is enough.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "experiments/points/point.hpp"
#include "formats/base/matrix.hpp"

namespace tessera {

/// How an attempt ended.
struct Attempt {
  Json record;                  // complete, without env_id and config_hash
  bool restart_needed = false;  // the process is spoilt for further GPU work (sticky CUDA error)
};

struct PointRunnerOptions {
  bool fresh_orders = false;  // compute every order, even one that is in the cache

  /// Called while an order is computed, at its beginning and whenever the reordering tells.
  std::function<void(const Point& point, double share)> tell_order = {};
};

class PointRunner {
 public:
  explicit PointRunner(PointRunnerOptions options = {});
  ~PointRunner();

  /// Identity of the result: params, matrix content, versions of the reordering and of the kernel
  /// or format. Loads the matrix; when that fails, the identity of the request alone.
  std::string point_id(const Point& point);

  /// Never throws for what can go wrong with a point: that is in the record's status and reason.
  Attempt run(const Point& point);

  /// C of the last run that computed one, in the order of the file; empty otherwise.
  const DenseMatrix& last_c() const;

  /// Uses this B in the place of a random one.
  void use_b(DenseMatrix b);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A record for a point that never got to run to its end ("timeout", "failed", "oom").
Json unfinished_record(const Point& point, const std::string& status, const std::string& reason);

/// Identity of the result as far as is known, without loading them, what its matrices hold. Throws
/// an Error when one is not on this machine.
std::string known_point_id(const Point& point);

/// Identity of a result whose matrix content is known: A's, and that of a sparse B of its own.
std::string point_id(const Point& point, const std::string& content_hash);

}  // namespace tessera
