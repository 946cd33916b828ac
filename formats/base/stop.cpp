#include "formats/base/stop.hpp"

namespace tessera {
namespace {

thread_local StopFlag flag_of_thread = nullptr;

}  // namespace

StopFlag stop_flag() { return flag_of_thread; }
void set_stop_flag(StopFlag flag) { flag_of_thread = flag; }

bool stop_requested() { return flag_of_thread != nullptr && *flag_of_thread != 0; }

void throw_if_stopped() {
  if (stop_requested()) throw Stopped();
}

}  // namespace tessera
