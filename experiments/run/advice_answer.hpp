// A question for the advisor as a user puts it, and the answer with its costs: the verb `advise`
// and the C interface.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "experiments/run/advice.hpp"

namespace tessera {

class AdviceProgress;

struct AdviceQuestion {
  std::int64_t n = 128;  // columns of B
  std::string device = "h200";
  /// Reorderings to compare with the order of the file; "all" for every one, "none" for none.
  /// Empty: the one or two with the largest gain for their time.
  std::vector<std::string> orders = {};
  std::vector<std::string> kernels = {};  // names; empty: all that keep the range of FP32
  std::int64_t products = 1000;           // that share one preparation
  /// After this time since `start` the answer is what is known by then.
  double max_seconds = std::numeric_limits<double>::infinity();
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  bool cold = false;                       // the L2 holds nothing of B and C
  bool quick = false;                      // ranks by the roofline, without simulating
  std::function<bool()> interrupted = {};  // ends it like max_seconds
  AdviceProgress* progress = nullptr;
};

/// A ranked candidate with its cost for the user's number of products.
struct AdviceLine {
  Rating rating;
  double preparation_s;
  std::optional<std::int64_t> pays_after;  // products, relative to the order of the file
  double total_s;                          // of all products, preparation included
};

struct AdviceAnswer {
  MatrixAdvice advice;
  std::vector<AdviceLine> lines;            // the fastest first
  std::vector<std::string> left_out;        // orders and kernels that are no candidates: reasons
  std::vector<std::string> not_considered;  // candidates, because the time was up

  /// The line that finishes all products first, preparation included; null when all are bounds.
  const AdviceLine* first_done() const;
};

/// A reordering from its text, with every parameter.
Variant reordering_of(const std::string& text);

/// Throws an Error for a name in the question that is not registered, and for a negative time.
void check(const AdviceQuestion& question);

/// `name` is the matrix's, for progress; `content_hash` its identity in the cache of orders.
AdviceAnswer answer(const CsrMatrix& matrix, const std::string& name,
                    const std::string& content_hash, const AdviceQuestion& question);

/// The answer as `tessera advise --json` prints it.
Json to_json(const AdviceAnswer& answer, const std::string& name, const AdviceQuestion& question);

}  // namespace tessera
