// Holding results against a paper: a statistic of some rows, or of ratios of rows, against the
// number it printed.
//
// A claim is about the matrices that its config names as it was written. It is judged on these, and
// on no others, once enough of them have results: what five of them say, or stand-ins, neither
// confirms nor refutes a claim about twenty-eight.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

/// The matrices that a claim is about.
struct Population {
  std::set<std::string> matrices = {};  // by their short names; empty: whichever there are
  /// The conditions of `where` and `relative_to` on columns that are known before a point has run.
  Settings where = {}, relative_to = {};
  bool is_exact = true;  // these are all the conditions
};

/// The matrices of those `planned` rows that the claim selects. Conditions on results (a class of
/// synergy, a joined value) select among those later; a name that a [[reduce]] gives stands for the
/// rows that it takes the best of.
Population population_of(const Expect& expect, const std::vector<Row>& planned,
                         const Config& config);

enum class Verdict { kMet, kRefuted, kNotJudged };

/// "met", "refuted" or "not judged".
std::string to_text(Verdict verdict);

struct ExpectationResult {
  std::string name = {};
  std::string source = {};
  double expected = 0;
  double found = 0;          // 0 without values
  std::size_t values = 0;    // rows (or pairs of rows) the statistic is over
  std::size_t matrices = 0;  // of the population, with results
  std::size_t needed = 1;    // matrices
  Verdict verdict = Verdict::kNotJudged;
  std::string text = {};  // one line for people
};

Json to_json(const ExpectationResult& result);

/// Judges by the rows of the population. It needs results of `matrices` of it where [[expect]] has
/// that key, else of all but those to which an order, a format or a kernel does not apply.
ExpectationResult judge(const Expect& expect, const std::vector<Row>& rows, const Config& config,
                        const Population& population = {});

}  // namespace tessera
