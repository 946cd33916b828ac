#include "experiments/run/interrupt.hpp"

namespace tessera {
namespace {

volatile std::sig_atomic_t seen = 0;

}  // namespace

InterruptGuard::InterruptGuard() {
  seen = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { seen = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &before_int_);
  sigaction(SIGTERM, &action, &before_term_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

bool InterruptGuard::interrupted() { return seen != 0; }

}  // namespace tessera
