// Every shipped config is complete: what it asks, what it follows, and what runs without a GPU and
// without files.
#include <doctest/doctest.h>

#include "experiments/config/needs.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/tables/check_columns.hpp"

namespace tessera {
namespace {

TEST_CASE("every shipped config says what it asks, what it follows and how long it takes") {
  const std::vector<std::string> names = shipped_configs();
  REQUIRE(names.size() > 40);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Config config = load_config(name);
    CHECK(config.id == name);
    CHECK(config.question.ends_with('?'));
    CHECK(config.question.size() < 100);
    CHECK(config.paper.empty() == config.figure.empty());
    const bool runs = config.gpu_only.empty();
    CHECK((config.minutes > 0) == runs);
    CHECK(config.minutes <= 3);
  }
}

TEST_CASE("every shipped config runs without a GPU and without files, or says why not") {
  for (const std::string& name : shipped_configs()) {
    CAPTURE(name);
    const Config config = load_config(name, {}, {.gpu = true, .data = true});
    check_columns(config);
    CHECK_FALSE(make_plan(config).entries.empty());
    const Needs needs = needs_of(config);
    CHECK(needs.absent == 0);
    CHECK(needs.gpu == !config.gpu_only.empty());
  }
}

TEST_CASE("the columns of every shipped config are known before it runs, as written too") {
  for (const std::string& name : shipped_configs()) {
    CAPTURE(name);
    check_columns(load_config(name));
  }
}

}  // namespace
}  // namespace tessera
