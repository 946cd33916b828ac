// Resolves settings to a point: fills in defaults, assigns parameters to the variants that declare
// them, makes names canonical, and leaves out settings that do not apply.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "experiments/config/config.hpp"
#include "experiments/points/point.hpp"

namespace tessera {

/// Settings that override those of lower rank; those of equal rank may not contradict each other.
struct Layer {
  const Settings* settings = nullptr;
  int rank = 0;
};

/// Resolves the points of one config and remembers which settings were left out.
class PointResolver {
 public:
  explicit PointResolver(const Config& config) : config_(config) {}

  /// `layers` have ascending ranks. Throws an Error with the place of an impossible setting.
  Point resolve(const std::vector<Layer>& layers, const std::string& backend);

  /// The matrix that an axis names, as points have it. Throws an Error with the place.
  std::string matrix_name(const std::string& key, const Setting& setting);

  /// After the last point: throws an Error for a setting that applied to none of them.
  void refuse_unused() const;

  /// The known facts about the matrix of a resolved point, by its name in the point.
  struct KnownMatrix {
    std::string name;             // short, as in tables and figures
    std::int64_t file_bytes = 0;  // 0 when it is generated or absent
  };
  const KnownMatrix& known_matrix(const std::string& reference) const;

  /// The settings that did not apply, and to which variants, sorted.
  std::vector<std::string> notes() const;

  /// A setting and how strong it is.
  struct Slot {
    const Setting* setting = nullptr;
    int rank = 0;
  };

 private:
  static constexpr int kStages = 5;  // those of variant_keys()

  using Slots = std::map<std::string, Slot>;
  struct Sorted {
    Slots axes;
    std::vector<std::pair<std::string, Slot>> params;  // in the order of the layers
  };

  Sorted sort(const std::vector<Layer>& layers, const BackendTraits& backend) const;
  std::vector<Layer> with_published_choices(const std::vector<Layer>& layers);
  std::array<std::string, kStages> stage_names(const Slots& axes, const BackendTraits& backend);
  std::array<Slots, kStages> hand_out(const Sorted& sorted,
                                      const std::array<std::string, kStages>& names);
  Task resolve_task(const BackendTraits& backend, const Slots& axes,
                    const std::array<Variant, kStages>& variants);
  void note_left_out(const Slots& axes, const BackendTraits& backend, const std::string& kernel);
  Variant variant(int stage, const std::string& name, const Slots& slots);
  std::string right_name(const Setting& setting);
  std::string format_of(const std::string& kernel);

  /// A stage, the name of a variant and the settings of its parameters.
  using VariantKey =
      std::tuple<int, std::string, std::vector<std::pair<std::string, const Setting*>>>;

  const Config& config_;
  std::map<VariantKey, Variant> variants_;                  // those made so far
  std::map<std::string, Settings> published_;               // choices by kernel and what is given
  std::map<std::string, std::string> references_;           // matrix as given -> as points say it
  std::map<std::string, KnownMatrix> known_matrices_;       // by reference
  std::map<std::string, std::string> kernel_formats_;       // kernel -> format it reads
  std::map<std::string, SourceLocation> params_seen_;       // parameter as written -> first place
  std::set<std::string> params_applied_;                    // those some point has
  std::set<std::pair<int, std::string>> declared_;          // stage, parameter of the variants seen
  std::set<std::pair<std::string, std::string>> left_out_;  // parameter, "kernel csr_spmm"
};

}  // namespace tessera
