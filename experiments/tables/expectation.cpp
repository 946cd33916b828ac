#include "experiments/tables/expectation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/tables/figure_rows.hpp"
#include "experiments/tables/row_steps.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

/// Ratios pair rows of the same matrix and n.
std::string partner_key(const Row& row) {
  return cell_text(row, "matrix") + "|" + cell_text(row, "n");
}

double number(const Expect& expect, const Row& row, const std::string& column) {
  require(row.at(column).is_number(), "{}: [[expect]] is about numbers, and '{}' holds {}",
          expect.place, column, row.at(column).dump());
  return row.at(column).get<double>();
}

/// The divisors by partner_key.
std::map<std::string, double> partners_of(const Expect& expect, const std::vector<Row>& rows) {
  std::map<std::string, double> partners;
  if (expect.relative_to.empty()) return partners;
  for (const Row& row : select(rows, expect.relative_to)) {
    if (!row.contains(expect.column)) continue;
    require(partners.try_emplace(partner_key(row), number(expect, row, expect.column)).second,
            "{}: relative_to holds for two rows of matrix {}, n = {}: narrow it", expect.place,
            cell_text(row, "matrix"), cell_text(row, "n"));
  }
  return partners;
}

/// A row, or a pair of rows, that the statistic is over.
struct Sample {
  std::string matrix;
  double value = 0;
  double with = 0;  // of a rank correlation: the other column
};

bool is_of(const Population& population, const std::string& matrix) {
  return population.matrices.empty() || population.matrices.contains(matrix);
}

std::vector<Sample> samples_of(const Expect& expect, const std::vector<Row>& rows,
                               const Population& population) {
  const std::map<std::string, double> partners = partners_of(expect, rows);
  std::vector<Sample> samples;
  for (const Row& row : select(rows, expect.where)) {
    Sample sample{.matrix = cell_text(row, "matrix")};
    if (!row.contains(expect.column) || !is_of(population, sample.matrix)) continue;
    sample.value = number(expect, row, expect.column);
    if (!expect.with.empty()) {
      if (!row.contains(expect.with)) continue;
      sample.with = number(expect, row, expect.with);
    }
    if (!expect.relative_to.empty()) {
      const auto partner = partners.find(partner_key(row));
      if (partner == partners.end()) continue;
      sample.value /= partner->second;
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::set<std::string> matrices_of(const std::vector<Row>& rows, const Settings& where) {
  std::set<std::string> matrices;
  for (const Row& row : select(rows, where)) matrices.insert(cell_text(row, "matrix"));
  return matrices;
}

/// The matrices of the population to which an order, a format or a kernel does not apply, unless
/// some of their points are samples. A claim about that variant is not about these. What this
/// machine lacks, a matrix or a backend, is no such reason.
std::size_t count_inapplicable(const std::vector<Sample>& samples, const std::vector<Row>& rows,
                               const Population& population) {
  std::set<std::string> matrices;
  for (const Row& row : rows) {
    const std::string skip = cell_text(row, "skip");
    if (skip.empty() || skip == kAbsentMatrix || skip == "backend") continue;
    const std::string matrix = cell_text(row, "matrix");
    if (population.matrices.contains(matrix) &&
        (matches(row, population.where) ||
         (!population.relative_to.empty() && matches(row, population.relative_to))))
      matrices.insert(matrix);
  }
  for (const Sample& sample : samples) matrices.erase(sample.matrix);
  return matrices.size();
}

/// The matrices of the population whose points have results: those of the samples or, where results
/// decide which rows are samples, those whose points have all ended well.
std::size_t count_matrices(const std::vector<Sample>& samples, const std::vector<Row>& rows,
                           const Expect& expect, const Population& population) {
  std::set<std::string> matrices;
  if (population.is_exact || expect.matrices) {
    for (const Sample& sample : samples) matrices.insert(sample.matrix);
    return matrices.size();
  }
  matrices = matrices_of(rows, population.where);
  const std::set<std::string> partners = matrices_of(rows, population.relative_to);
  std::erase_if(matrices, [&](const std::string& matrix) {
    return !is_of(population, matrix) ||
           (!expect.relative_to.empty() && !partners.contains(matrix));
  });
  return matrices.size();
}

/// Places in ascending order, from 1 on; equal values share the mean of theirs.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    for (std::size_t i = first; i < last; ++i)
      ranks[order[i]] = static_cast<double>(first + last + 1) / 2;
  }
  return ranks;
}

/// Spearman's: the correlation of the ranks. 0 where one side does not vary.
double rank_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const std::vector<double> x_ranks = ranks(x), y_ranks = ranks(y);
  const double mean = static_cast<double>(x.size() + 1) / 2;
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x_ranks[i] - mean) * (x_ranks[i] - mean);
    yy += (y_ranks[i] - mean) * (y_ranks[i] - mean);
    xy += (x_ranks[i] - mean) * (y_ranks[i] - mean);
  }
  return xx == 0 || yy == 0 ? 0 : xy / std::sqrt(xx * yy);
}

double statistic_of(const Expect& expect, const std::vector<Sample>& samples) {
  std::vector<double> values, with;
  for (const Sample& sample : samples) {
    values.push_back(sample.value);
    with.push_back(sample.with);
  }
  return expect.with.empty() ? statistic(expect.statistic, std::move(values))
                             : rank_correlation(with, values);
}

/// The conditions with those of the [[reduce]] in the place of its name.
Settings without_reduced_names(Settings where, const Config& config) {
  for (const Reduce& reduce : config.reduces) {
    const auto named = where.find(reduce.column);
    if (named == where.end() || named->second.value != Json(reduce.name)) continue;
    where.erase(named);
    where.insert(reduce.where.begin(), reduce.where.end());
  }
  return where;
}

bool met(const Expect& expect, double found) {
  if (expect.trend == "at_least") return found >= expect.value;
  if (expect.trend == "at_most") return found <= expect.value;
  return std::fabs(found - expect.value) <= expect.tolerance * std::fabs(expect.value);
}

std::string relation(const Expect& expect) {
  if (expect.trend == "at_least") return "at least";
  return expect.trend == "at_most" ? "at most" : "about";
}

}  // namespace

Population population_of(const Expect& expect, const std::vector<Row>& planned,
                         const Config& config) {
  std::set<std::string> columns;
  for (const Row& row : planned)
    for (const auto& [column, value] : row) columns.insert(column);
  Population population;
  const auto keep_known = [&](Settings where) {
    if (std::erase_if(where, [&](const auto& one) { return !columns.contains(one.first); }) > 0)
      population.is_exact = false;
    return where;
  };
  population.where = keep_known(without_reduced_names(expect.where, config));
  population.relative_to = keep_known(without_reduced_names(expect.relative_to, config));
  for (const Row& row : planned)
    if (matches(row, population.where)) population.matrices.insert(cell_text(row, "matrix"));
  return population;
}

std::string to_text(Verdict verdict) {
  if (verdict == Verdict::kNotJudged) return "not judged";
  return verdict == Verdict::kMet ? "met" : "refuted";
}

Json to_json(const ExpectationResult& result) {
  Json json{{"name", result.name},
            {"source", result.source},
            {"verdict", to_text(result.verdict)},
            {"expected", result.expected},
            {"values", result.values},
            {"matrices", result.matrices},
            {"needed_matrices", result.needed},
            {"text", result.text}};
  if (result.values > 0) json["found"] = result.found;
  return json;
}

ExpectationResult judge(const Expect& expect, const std::vector<Row>& rows, const Config& config,
                        const Population& population) {
  check_column(expect.column, rows, config, expect.place);
  for (const Settings* settings : {&expect.where, &expect.relative_to})
    for (const auto& [column, setting] : *settings)
      check_column(column, rows, config, setting.place);
  if (!expect.with.empty()) check_column(expect.with, rows, config, expect.place);

  const std::vector<Sample> samples = samples_of(expect, rows, population);
  ExpectationResult result{.name = expect.name,
                           .source = expect.source,
                           .expected = expect.value,
                           .found = samples.empty() ? 0 : statistic_of(expect, samples),
                           .values = samples.size(),
                           .matrices = count_matrices(samples, rows, expect, population),
                           .needed = 1};
  if (!population.matrices.empty())
    result.needed = population.matrices.size() - count_inapplicable(samples, rows, population);
  if (expect.matrices) result.needed = static_cast<std::size_t>(*expect.matrices);
  if (result.matrices < result.needed) {
    result.text = fmt::format("{}: not judged: {} of {} matri{} ({})", expect.name, result.matrices,
                              result.needed, result.needed == 1 ? "x" : "ces", expect.source);
    return result;
  }
  if (samples.empty()) {
    result.text = fmt::format("{}: not judged: none of the results is what it is about ({})",
                              expect.name, expect.source);
    return result;
  }
  result.verdict = met(expect, result.found) ? Verdict::kMet : Verdict::kRefuted;
  result.text = fmt::format("{}: {} {}{} over {} is {:.4g}, expected {} {:.4g} ({}): {}",
                            expect.name, expect.statistic, expect.column,
                            expect.with.empty() ? "" : " with " + expect.with, result.values,
                            result.found, relation(expect), expect.value, expect.source,
                            result.verdict == Verdict::kMet ? "met" : "NOT met");
  return result;
}

}  // namespace tessera
