// One point, from its request to its record. Dense product: load, reorder, pack, run, restore the
// order of C, check. Sparse product: load A and B, reorder, run, check. Packing: load, reorder,
// pack, unpack, compare. Ordering: load, reorder, describe.
//
// The inputs that the points of one matrix share are kept between calls (point_inputs.hpp), and so
// are emulated results.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "experiments/points/point.hpp"
#include "experiments/records/record.hpp"
#include "experiments/run/device_turn.hpp"
#include "formats/base/matrix.hpp"

namespace tessera {

/// The result of an attempt.
struct Attempt {
  Record record;                // complete, without env_id, experiment and config_hash
  bool restart_needed = false;  // a sticky CUDA error: this process cannot use the GPU any more
};

struct PointRunnerOptions {
  DeviceTurn* turn = nullptr;  // is taken to use the device; null where no other thread does
  std::size_t user = 0;        // the number by which this runner takes it
  /// Called when it has the turn, before anything is measured.
  std::function<void()> has_turn = {};
  bool fresh_orders = false;  // compute every order, even one that is in the cache
  bool keeps_truth = false;   // of A B, for further points of the same A and B

  /// Called when the computation of an order begins, and whenever the reordering reports progress.
  std::function<void(const Point& point, double share)> tell_order = {};
};

class PointRunner {
 public:
  explicit PointRunner(PointRunnerOptions options = {});
  ~PointRunner();

  /// The identity of the result: params, matrix content, versions of the reordering and of the
  /// kernel or format. Loads the matrix; when that fails, returns the identity of the request
  /// alone.
  std::string point_id(const Point& point);

  /// Runs the point. Does not throw when the point fails: the record's status and reason say so.
  Attempt run(const Point& point);

  /// C of the last run that computed one, in the order of the file; empty otherwise.
  const DenseMatrix& last_c() const;

  /// Uses this B in the place of a random one.
  void use_b(DenseMatrix b);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The record of a point that did not run to its end ("timeout", "failed", "oom").
Record unfinished_record(const Point& point, const std::string& status, const std::string& reason);

/// The identity of the result without loading its matrices, from their content hashes as far as the
/// cache knows them. Throws an Error when a matrix is not on this machine.
std::string known_point_id(const Point& point);

}  // namespace tessera
