// The points of a comparison: what identifies each, and how it is called in the compared columns.
#pragma once

#include <string>
#include <vector>

#include "experiments/tables/rows.hpp"

namespace tessera {

struct ComparedPoint {
  Row row;
  Row identity;             // column -> value; what may be compared, or has to agree
  std::string matrix_hash;  // of the content; empty where the matrix was not loaded
  std::string label = {};   // values of the compared columns
  std::string key = {};     // the rest of the identity
};

/// The latest record of every point that matches `where`, whatever its status; of a point that ran
/// on several machines or commits one for each, where `by` compares these. Throws an Error for an
/// unknown column.
std::vector<ComparedPoint> compared_points(const RecordSet& records, const Settings& where,
                                           const std::vector<std::string>& by);

/// The columns in which all of A has one value and all of B another one.
std::vector<std::string> differing_columns(const std::vector<ComparedPoint>& a,
                                           const std::vector<ComparedPoint>& b);

/// Sets the labels of the points of all sets. The label of a variant has the parameters that vary.
void set_labels(const std::vector<std::string>& by,
                const std::vector<std::vector<ComparedPoint>*>& sets);

/// Sets the keys.
void set_keys(const std::vector<std::string>& by, std::vector<ComparedPoint>& points);

/// True for a compared column, its parameters, and what follows from it: the format of a kernel,
/// the device of a backend.
bool is_compared(const std::string& column, const std::vector<std::string>& by);

/// The label that `baseline` means: the label itself, or the only one of that name; of "", the
/// first one. Throws an Error that lists the labels.
std::string find_label(const std::vector<ComparedPoint>& points, const std::string& baseline,
                       const std::vector<std::string>& by);

/// Throws an Error where two points have one key.
void refuse_doubles(const std::string& set, const std::vector<const ComparedPoint*>& points);
void refuse_doubles(const std::string& set, const std::vector<ComparedPoint>& points);

/// The reason why no point of A has a partner in B.
std::string no_pairs_message(const std::vector<ComparedPoint>& a,
                             const std::vector<ComparedPoint>& b,
                             const std::vector<std::string>& by);

/// The columns of a row that identify its point, the most telling first.
std::vector<std::string> identity_columns(const Row& row);

}  // namespace tessera
