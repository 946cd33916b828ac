// Ctrl-C while a guard lives, twice, and after it.
#include "experiments/run/interrupt.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "tests/support.hpp"

namespace tessera {
namespace {

TEST_CASE("a guard takes one Ctrl-C or one SIGTERM, and the next guard starts anew") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Outcome outcome = in_child([signal] {
      {
        const InterruptGuard guard;
        if (InterruptGuard::interrupted()) _exit(1);
        std::raise(signal);
        if (!InterruptGuard::interrupted()) _exit(2);
      }
      const InterruptGuard guard;
      _exit(InterruptGuard::interrupted() ? 3 : 0);
    });
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("a second Ctrl-C ends the process, as does one without a guard") {
  const Outcome twice = in_child([] {
    const InterruptGuard guard;
    std::raise(SIGINT);
    std::raise(SIGINT);
    _exit(0);
  });
  const Outcome unguarded = in_child([] {
    { const InterruptGuard guard; }
    std::raise(SIGINT);
    _exit(0);
  });

  CHECK(twice.signal == SIGINT);
  CHECK(unguarded.signal == SIGINT);
}

}  // namespace
}  // namespace tessera
