// Computing in a process of its own: the answer, the error and the death all arrive.

#include "experiments/machine/own_process.hpp"

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "formats/base/check.hpp"

namespace tessera {
namespace {

TEST_CASE("an answer computed in another process arrives, and leaves no trace here") {
  static int touched = 0;

  const Json answer = in_own_process([] {
    touched = 1;
    return Json{{"text", std::string(100'000, 'x')}};
  });

  CHECK(answer["text"].get<std::string>().size() == 100'000);
  CHECK(touched == 0);
}

TEST_CASE("processes work while this one goes on, and one that is not asked is killed") {
  const auto sleep = [](std::chrono::milliseconds time) {
    return [time]() -> Json {
      std::this_thread::sleep_for(time);
      return getpid();
    };
  };
  const auto began = std::chrono::steady_clock::now();

  OwnProcess first(sleep(std::chrono::milliseconds(900)));
  OwnProcess second(sleep(std::chrono::milliseconds(900)));
  { const OwnProcess left(sleep(std::chrono::hours(1))); }
  const Json one = first.answer(), other = second.answer();

  CHECK(one != other);
  CHECK(one != getpid());
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::milliseconds(1700));
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
}

TEST_CASE("an error in another process, or its death, is an error here") {
  CHECK_THROWS_WITH_AS(in_own_process([]() -> Json { throw Error("no such device"); }),
                       "no such device", Error);
  CHECK_THROWS_WITH_AS(in_own_process([]() -> Json {
                         std::raise(SIGKILL);
                         return {};
                       }),
                       "a process ended without an answer: Killed", Error);
}

}  // namespace
}  // namespace tessera
