// tessera timeline: one simulated product as files to draw: when and where each thread block ran,
// what one of them did, and how evenly the work was spread.

#include <algorithm>
#include <optional>

#include "experiments/backends/find_order.hpp"
#include "experiments/config/plan.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/machine/terminal.hpp"
#include "experiments/run/advice.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/run/timeline.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/extents.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/source.hpp"
#include "kernels/spmm_kernel.hpp"
#include "model/described_limits.hpp"
#include "model/simulator/report.hpp"

namespace tessera {
namespace {

class TimelineVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("MATRIX", matrix_, "A: a file, a generator or a name")->required();
    app.add_option("--kernel", kernel_,
                   "kernel (`tessera list kernels`); auto: the one that a simulation expects to be "
                   "fastest");
    app.add_option("--n", n_, "columns of B")->check(CLI::PositiveNumber);
    app.add_option("--device", device_, "described device");
    app.add_option(
           "--thread-block", thread_block_,
           "thread block of the longest launch whose operations are kept (default: the longest)")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--format", format_, "format of A (default: the kernel's)");
    app.add_option("--reorder", reorder_,
                   "reordering applied to A first (`tessera list reorderings`)");
    app.add_option("--set", sets_, "parameter of a variant, as in precision=tf32_raw")
        ->allow_extra_args(false)
        ->takes("NAME=VALUE");
    app.add_flag("--cold", cold_, "start with B and C outside the L2 cache");
    app.add_option("--out", out_, "output folder")->takes("FOLDER");
    app.example("tessera timeline 'rmat(scale=12)' --n 64 --kernel acc_spmm",
                "when each thread block ran and where, as CSV files");
  }

  int run() override {
    Point point = resolve();
    const LoadedMatrix loaded = load_matrix(point.matrix);
    try {
      const CsrMatrix a = ordered(loaded, point.reorder);
      auto& product = std::get<DenseProduct>(point.task);
      if (product.kernel.name == kAuto) {
        const KernelChoice choice = choose_kernel(a, advice_request(point));
        product.kernel = choice.kernel;
        product.format = choice.format;
      }
      element_count(std::max(a.rows, a.cols), product.n);  // B and C fit a memory
      const auto packed = make_registered<Format>(product.format)->pack(a);
      const auto kernel = make_registered<SpmmKernel>(product.kernel);
      kernel->set_gpu(described_limits(find_device(point.device)));
      const Timeline timeline = simulated(kernel->work(*packed, product.n), point);
      write(timeline, loaded, point);
      tell(timeline, loaded, point);
    } catch (const Unsupported& missing) {
      say_error(missing.what());
      return kMissing;
    }
    return kOk;
  }

 private:
  Point resolve() const {
    Config config;
    config.path = "timeline";
    config.backends = {"simulate"};
    std::vector<std::pair<std::string, Json>> settings{{"matrix", find_matrix(matrix_).canonical},
                                                       {"kernel", kernel_},
                                                       {"n", n_},
                                                       {"reorder", reorder_},
                                                       {"device", device_},
                                                       {"l2", cold_ ? "flush" : "warm"}};
    if (!format_.empty()) settings.emplace_back("format", format_);
    for (const auto& [name, value] : given_params(sets_))
      settings.emplace_back(name, std::get<std::string>(value));
    return plan_point(std::move(config), settings);
  }

  static CsrMatrix ordered(const LoadedMatrix& loaded, const Variant& reordering) {
    ShareProgress progress(fmt::format("{} by {}", loaded.source.name, reordering.name));
    Watch watch({}, [&](double share) { progress.tell(share); });
    return apply(loaded.matrix,
                 find_order(loaded.matrix, loaded.content_hash, reordering, watch).order);
  }

  Timeline simulated(const WorkDescription& work, const Point& point) const {
    std::string working_on;
    std::optional<ShareProgress> progress;
    return make_timeline(work, find_device(point.device),
                         {.thread_block = thread_block_,
                          .warm = point.measure.l2 == "warm",
                          .progress = [&](const std::string& what, double share) {
                            if (what != working_on) progress.emplace(working_on = what);
                            progress->tell(share);
                          }});
  }

  /// Writes the three tables, and beside them the point, the machine and the commit.
  void write(const Timeline& timeline, const LoadedMatrix& loaded, const Point& point) const {
    write_file(out_ + "/thread_blocks.csv", thread_blocks_csv(timeline));
    write_file(out_ + "/operations.csv", operations_csv(timeline));
    write_file(out_ + "/balance.csv", balance_csv(timeline));
    write_file(out_ + "/timeline.jsonl",
               environment_record().dump(-1, ' ', false, Json::error_handler_t::replace) + "\n" +
                   describe(timeline, point, loaded.source.name).dump() + "\n");
  }

  void tell(const Timeline& timeline, const LoadedMatrix& loaded, const Point& point) const {
    const auto line = [](const char* name, const std::string& text) {
      fmt::print("{:20} {}\n", name, text);
    };
    const simulator::Report report = simulator::report(timeline.result);
    const double mhz = timeline.result.machine.clock_mhz;
    const DenseProduct& product = dense_product(point);
    line("product", fmt::format("{}, order {}, {}, N = {}, simulated on {}", loaded.source.name,
                                point.reorder.name, product.kernel.name, product.n, point.device));
    line("time",
         fmt::format("{}, bound by {}", time_text(timeline.result.time_us), report.bound_by));
    line("launch",
         fmt::format("{}, {}, {:.3g} waves", timeline.launch().name,
                     counted(std::ssize(timeline.launch().spans), "thread block"), report.waves));
    line("resident", fmt::format("{} an SM, limited by {}",
                                 counted(report.resident_thread_blocks, "thread block"),
                                 report.occupancy_limit));
    line("SM balance", fmt::format("{:.3f}, mean over longest time of an SM", report.sm_balance));
    line("longest thread block", time_text(report.longest_thread_block_us));
    line("watched", fmt::format("thread block {}, {} to {} on SM {}, {}", timeline.thread_block,
                                time_text(timeline.span().start / mhz),
                                time_text(timeline.span().end / mhz), timeline.span().sm,
                                counted(std::ssize(timeline.launch().watched), "operation")));
    const char* name = "warp time";
    std::vector<std::pair<std::string, double>> shares(report.warp_time.begin(),
                                                       report.warp_time.end());
    std::ranges::stable_sort(shares, std::ranges::greater{},
                             [](const auto& s) { return s.second; });
    for (const auto& [what, share] : shares) {
      line(name, fmt::format("{:12} {:5.1f} %", what, 100 * share));
      name = "";
    }
    line("wrote", out_ + "/{thread_blocks,operations,balance}.csv and timeline.jsonl");
  }

  std::string matrix_, kernel_ = kAuto, format_, reorder_ = "none", device_ = "h200";
  std::string out_ = "out/timeline";
  std::int64_t n_ = 128;
  std::optional<std::int64_t> thread_block_;
  std::vector<std::string> sets_;
  bool cold_ = false;
};

const Register<Verb> entry{{
    .name = "timeline",
    .summary = "trace a simulated product: thread blocks on SMs, operations of one thread block",
    .make = [](const Params&) { return std::make_unique<TimelineVerb>(); },
}};

}  // namespace
}  // namespace tessera
