// The time that each phase of some work takes on the GPU, by events between the phases.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/base/device_event.hpp"

namespace tessera {

class PhaseTimes {
 public:
  /// Begins a phase on the stream, which ends the one before. A name without a phase ends all.
  void begin(const std::string& phase, cudaStream_t stream) {
    marks_.push_back({phase, std::make_unique<DeviceEvent>()});
    marks_.back().event->record(stream);
  }

  /// Microseconds of all phases of a name. Waits for the device.
  std::map<std::string, double> us() const {
    std::map<std::string, double> sums;
    for (std::size_t i = 1; i < marks_.size(); ++i)
      sums[marks_[i - 1].phase] += marks_[i].event->us_since(*marks_[i - 1].event);
    return sums;
  }

 private:
  struct Mark {
    std::string phase;
    std::unique_ptr<DeviceEvent> event;
  };
  std::vector<Mark> marks_;
};

}  // namespace tessera
