// The watch of a reordering: limits, interrupts, and that a stop is remembered.
#include "reorder/watch.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

namespace tessera {
namespace {

TEST_CASE("a watch without a limit never stops a reordering") {
  Watch watch;
  watch.limit(0);
  watch.limit(1e30);

  CHECK(!watch.stop());
  CHECK(!watch.stopped());
}

TEST_CASE("a watch stops when its earliest limit is over") {
  Watch watch;
  watch.limit(1e-3);
  watch.limit(3600);

  std::this_thread::sleep_for(std::chrono::milliseconds(5));

  CHECK(!watch.stopped());  // nobody has asked yet
  CHECK(watch.stop());
  CHECK(watch.stopped());
}

TEST_CASE("a watch that was interrupted stays so, and reports the progress of the work") {
  bool interrupted = true;
  std::vector<double> told;
  Watch watch([&] { return interrupted; }, [&](double share) { told.push_back(share); });

  CHECK(watch.stop());
  interrupted = false;
  watch.report(0.25);

  CHECK(watch.stop());
  CHECK(told == std::vector<double>{0.25});
}

TEST_CASE("shares refer to the current part, and only the watch's own thread reports them") {
  std::vector<double> told;
  Watch watch({}, [&](double share) { told.push_back(share); });

  watch.report(0.25);
  watch.begin_part(0.5, 0.75);
  watch.report(0.5);
  std::thread([&] { watch.report(1); }).join();

  CHECK(told == std::vector<double>{0.25, 0.5, 0.625});
}

}  // namespace
}  // namespace tessera
