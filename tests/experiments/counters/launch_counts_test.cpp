// Counters of several launches put together, and what Nsight Compute prints read back.
#include "experiments/counters/launch_counts.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "experiments/counters/ncu_report.hpp"
#include "formats/base/check.hpp"

namespace tessera {
namespace {

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Two launches of one product, as ncu prints them: a kernel that works, and one that clears C.
const std::string kReport =
    "==PROF== Connected to process 42 (/opt/tessera)\n"
    "==PROF== Profiling \"product\" - 0: 0%....50%....100% - 2 passes\n"
    "\"ID\",\"Process ID\",\"Kernel Name\",\"Block Size\",\"CC\",\"gpu__time_duration.sum\","
    "\"lts__t_sector_hit_rate.pct\",\"lts__t_sectors.sum\",\"lts__t_sectors_lookup_hit.sum\","
    "\"sm__cycles_active.sum\",\"sm__warps_active.avg.pct_of_peak_sustained_active\"\n"
    "\"\",\"\",\"\",\"\",\"\",\"ns\",\"%\",\"sector\",\"sector\",\"cycle\",\"%\"\n"
    "\"0\",\"42\",\"clear(float *, \"\"all\"\" of C)\",\"(128, 1, "
    "1)\",\"9.0\",\"2,000\",\"10\",\"1,000\",\"100\","
    "\"50\",\"80\"\r\n"
    "\"1\",\"42\",\"product<int, float>(A, B)\",\"(256, 1, "
    "1)\",\"9.0\",\"30,500.5\",\"90\",\"9,000\",\"8,100\","
    "\"150\",\"40\"\n";

const std::vector<std::string> kMetrics{"gpu__time_duration.sum", "lts__t_sector_hit_rate.pct",
                                        "sm__warps_active.avg.pct_of_peak_sustained_active"};

TEST_CASE("ncu's table is read launch by launch, quoted names and grouped digits included") {
  const auto launches = read_ncu_report(kReport, kMetrics);

  REQUIRE(launches.size() == 2);
  CHECK(launches[0].size() == 3);
  CHECK(launches[0].at("gpu__time_duration.sum") == 2000);
  CHECK(launches[1].at("gpu__time_duration.sum") == 30500.5);
  CHECK(launches[1].at("lts__t_sector_hit_rate.pct") == 90);
}

TEST_CASE("a report of another form is an error that says what is wrong with it") {
  const auto error = [](std::string report, const std::string& from, const std::string& to,
                        const std::vector<std::string>& metrics) {
    if (!from.empty()) report.replace(report.find(from), from.size(), to);
    return error_of([&] { read_ncu_report(report, metrics); });
  };

  CHECK(error(kReport, "", "", {"lts__t_sectors.smu"}) ==
        "ncu found no metric lts__t_sectors.smu on the chip of compute capability 9.0: "
        "`tessera counters check lts__t_sectors.smu` names the nearest");
  CHECK(error(kReport, "2,000", "n/a", kMetrics) ==
        "ncu's report has no number for gpu__time_duration.sum, but 'n/a'");
  CHECK(error(kReport, "\"ns\"", "\"us\"", kMetrics) ==
        "ncu's report has gpu__time_duration.sum in us, not in its base unit");
  CHECK(error(kReport, ",\"80\"", "", kMetrics) ==
        "ncu's report has a line of 10 cells under 11 names");
  CHECK(error("==WARNING== No kernels were profiled.\n", "", "", kMetrics) ==
        "ncu's report has no table: ==WARNING== No kernels were profiled.\n");
}

TEST_CASE("launches are put together by what their rates are rates of, not by the mean") {
  const auto wanted = with_companions(kMetrics);
  const LaunchCounts all = combine_launches(kMetrics, read_ncu_report(kReport, wanted));

  CHECK(all.size() == kMetrics.size());
  CHECK(all.at("gpu__time_duration.sum") == 32500.5);
  CHECK(all.at("lts__t_sector_hit_rate.pct") == doctest::Approx(82));  // 8200 of 10000 sectors
  CHECK(all.at("sm__warps_active.avg.pct_of_peak_sustained_active") ==
        doctest::Approx(50));  // 50 cycles at 80 %, 150 at 40 %
}

TEST_CASE("sums, averages over units and extremes follow their own rules") {
  const std::vector<LaunchCounts> launches{{{"dram__bytes_read.sum", 10},
                                            {"sm__inst_executed.avg", 3},
                                            {"sm__inst_executed.max", 9},
                                            {"sm__inst_executed.min", 1}},
                                           {{"dram__bytes_read.sum", 32},
                                            {"sm__inst_executed.avg", 4},
                                            {"sm__inst_executed.max", 5},
                                            {"sm__inst_executed.min", 2}}};

  const LaunchCounts all = combine_launches({"dram__bytes_read.sum", "sm__inst_executed.avg",
                                             "sm__inst_executed.max", "sm__inst_executed.min"},
                                            launches);

  CHECK(all.at("dram__bytes_read.sum") == 42);
  CHECK(all.at("sm__inst_executed.avg") == 7);
  CHECK(all.at("sm__inst_executed.max") == 9);
  CHECK(all.at("sm__inst_executed.min") == 1);
}

TEST_CASE("a rate is taken as it is from one launch, and refused of several where it is unknown") {
  const std::string rate = "smsp__average_warp_latency.ratio";

  CHECK(combine_launches({rate}, {{{rate, 7.5}}}).at(rate) == 7.5);
  CHECK(error_of([&] {
          combine_launches({rate}, {{{rate, 7.5}}, {{rate, 1}}});
        }).starts_with(rate + " of a product of 2 launches cannot be put together"));
  CHECK(error_of([&] { combine_launches({rate}, {}); }) == "the report has no launch");
  CHECK(error_of([&] {
          combine_launches({"a__b.sum"}, {{{rate, 1}}});
        }) == "the report of a launch has no a__b.sum");
  CHECK(with_companions({"a__b.sum", "dram__bytes_read.sum.per_second"}) ==
        std::vector<std::string>{"a__b.sum", "dram__bytes_read.sum.per_second",
                                 "gpu__time_duration.sum"});
}

}  // namespace
}  // namespace tessera
