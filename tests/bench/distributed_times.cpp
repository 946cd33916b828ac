// The time of products on several GPUs of this host over that on one, a line of a table for each
// way: our kernels with the needed rows of B exchanged, with all of them, and the baseline,
// cuSPARSE on each GPU with all of B gathered (CAGNET's 1D). Parts of the time, of the slowest GPU,
// stand beside it: the product of its own rows of B, the exchange alone, and the product of the
// received rows. Rows of C, drawn at random, are compared with fp64. The last line of a matrix,
// with the kernel "best of ours", has the fastest of our kernels on several GPUs over the fastest
// on one.
//
//     tessera_distributed_times GPUS N MATRIX...

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "formats/base/device_memory.hpp"
#include "formats/base/parallel.hpp"
#include "formats/base/random.hpp"
#include "formats/io/source.hpp"
#include "kernels/device/median_time.hpp"
#include "kernels/spmm/distributed/distributed_plan.hpp"
#include "kernels/spmm/distributed/group_timer.hpp"
#include "kernels/spmm/plan/spmm_plan.hpp"
#include "oracle/spmm_oracle.hpp"

namespace tessera {
namespace {

constexpr int kCheckedRows = 200;         // of each part
constexpr double kLargestError = 0x1p-9;  // over |A||B|: TF32 rounds both operands to 2^-11

DenseMatrix drawn_b(std::int64_t rows, std::int64_t n) {
  DenseMatrix b(rows, n);
  parallel_for(std::ssize(b.values), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      b.values[static_cast<std::size_t>(i)] = random_signed(1, static_cast<std::uint64_t>(i));
  });
  return b;
}

/// The largest error of some rows of C [rows of A x n] on the device, over |A||B|. `rows` are the
/// names in A of its rows.
double error_of(const CsrMatrix& a, const DenseMatrix& b, const std::vector<std::int32_t>& rows,
                const float* c) {
  std::vector<std::int32_t> cols;
  std::vector<std::int64_t> offsets{0};
  std::vector<float> values, found;
  if (rows.empty()) return 0;
  for (int i = 0; i < kCheckedRows; ++i) {
    const auto place =
        static_cast<std::size_t>(random_bits(2, static_cast<std::uint64_t>(i)) % rows.size());
    const auto of_cols = a.row_cols(rows[place]);
    const auto of_values = a.row_values(rows[place]);
    cols.insert(cols.end(), of_cols.begin(), of_cols.end());
    values.insert(values.end(), of_values.begin(), of_values.end());
    offsets.push_back(std::ssize(cols));
    found.resize(found.size() + static_cast<std::size_t>(b.cols));
    cuda_check(cudaMemcpy(found.data() + i * b.cols, c + static_cast<std::int64_t>(place) * b.cols,
                          static_cast<std::size_t>(b.cols) * sizeof(float), cudaMemcpyDeviceToHost),
               "copying a row of C");
  }
  const CsrMatrix checked{kCheckedRows, a.cols, offsets, cols, values};
  const TrueRows truth = spmm_fp64(checked, b, 0, kCheckedRows);
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(found[i] - truth.product[i]);
    if (truth.magnitude[i] > 0)
      worst = std::max(worst, error / truth.magnitude[i]);
    else if (!(error == 0))
      worst = INFINITY;
  }
  return worst;
}

std::string name_of_gpu() {
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, 0), "asking for the GPU's name");
  return properties.name;
}

struct Times {
  double product_us = 0, own_us = 0, exchange_us = 0, received_us = 0, error = 0;
  std::int64_t bytes = 0, bound = 0;  // exchanged, and the least that could be
};

double median(std::vector<double> samples) {
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

Times time_rank(const CsrMatrix& a, const DenseMatrix& b, const DistributedOptions& options,
                const Distribution& distribution, DeviceCommunicator& comm) {
  DistributedSpmmPlan plan(a, b.cols, options, distribution, comm);
  const auto& rows = plan.part().rows;
  const DeviceArray<float> own(own_rows(b, plan.part()).values);
  DeviceArray<float> c(rows.size() * static_cast<std::size_t>(b.cols));
  const auto median_of = [&](const std::function<void()>& work) {
    return median(time_together(comm, work));
  };
  Times times;
  times.product_us = median_of([&] { plan.run(own.data(), c.data()); });
  times.error = error_of(a, b, rows, c.data());
  times.own_us = median_of([&] { plan.multiply_own(own.data(), c.data(), {}, nullptr); });
  times.received_us = median_of([&] { plan.add_received(c.data(), 1, nullptr); });
  // Each waits for the one before, and the product of the received rows for all of them.
  const double both = median_of([&] {
    plan.start_exchange(own.data(), nullptr);
    plan.add_received(c.data(), 1, nullptr);
  });
  times.exchange_us = std::max(both - times.received_us, 0.0);
  return times;
}

class Table {
 public:
  Table(std::string matrix, const CsrMatrix& a, const DenseMatrix& b)
      : matrix_(std::move(matrix)), a_(a), b_(b), gpu_(name_of_gpu()) {}

  static void print_header() {
    fmt::print(
        "matrix,rows,nnz,n,gpu,gpus,kernel,exchange,product_us,over_one,own_us,exchange_us,"
        "received_us,bytes_exchanged,bound_bytes,largest_error,rows_of_c\n");
  }

  /// The product on one GPU. Returns its time.
  double time_one(const std::string& kernel) const {
    SpmmPlan plan(a_, b_.cols, {.candidates = {{kernel}}});
    const DeviceArray<float> b(b_.values);
    DeviceArray<float> c(static_cast<std::size_t>(a_.rows * b_.cols));
    Times times;
    times.product_us = median_us([&] { plan.run(b.data(), c.data()); });
    std::vector<std::int32_t> rows(static_cast<std::size_t>(a_.rows));
    std::iota(rows.begin(), rows.end(), 0);
    times.error = error_of(a_, b_, rows, c.data());
    print(1, kernel, "none", times, 1);
    return times.product_us;
  }

  /// The product on several GPUs, beside the time on one.
  Times time_several(int gpus, const std::string& kernel, Exchange exchange, double one_us) const {
    const DistributedOptions options{.parts = gpus, .kernel = kernel, .exchange = exchange};
    const Distribution distribution = distribute(a_, b_.cols, options);
    Times slowest;
    std::mutex mutex;
    run_on_devices(first_devices(gpus), [&](DeviceCommunicator& comm) {
      const Times times = time_rank(a_, b_, options, distribution, comm);
      const std::lock_guard lock(mutex);
      for (double Times::*time : {&Times::product_us, &Times::own_us, &Times::exchange_us,
                                  &Times::received_us, &Times::error})
        slowest.*time = std::max(slowest.*time, times.*time);
    });
    slowest.bytes = distribution.bytes_exchanged();
    slowest.bound = distribution.bound_bytes();
    print(gpus, kernel, name_of(exchange), slowest, one_us / slowest.product_us);
    return slowest;
  }

  void print(int gpus, const std::string& kernel, const char* exchange, const Times& times,
             double over_one) const {
    fmt::print("\"{}\",{},{},{},{},{},{},{},{:.1f},{:.3f},{:.1f},{:.1f},{:.1f},{},{},{:.3g},{}\n",
               matrix_, a_.rows, a_.nnz(), b_.cols, gpu_, gpus, kernel, exchange, times.product_us,
               over_one, times.own_us, times.exchange_us, times.received_us, times.bytes,
               times.bound, times.error, times.error <= kLargestError ? "right" : "WRONG");
    std::fflush(stdout);
  }

 private:
  std::string matrix_;
  const CsrMatrix& a_;
  const DenseMatrix& b_;
  std::string gpu_;
};

void print_times(int gpus, std::int64_t n, const std::string& name) {
  const CsrMatrix a = load_matrix(name, false).matrix;
  const DenseMatrix b = drawn_b(a.cols, n);
  Table table(name, a, b);
  double best_one_us = INFINITY;
  Times best;
  best.product_us = INFINITY;
  std::string way;
  for (const char* kernel : {"tessera_spmm", "rows_spmm"}) {
    const double one_us = table.time_one(kernel);
    best_one_us = std::min(best_one_us, one_us);
    for (const Exchange exchange : {Exchange::kNeeded, Exchange::kReplicated}) {
      const Times times = table.time_several(gpus, kernel, exchange, one_us);
      if (times.product_us < best.product_us) best = times, way = name_of(exchange);
    }
  }
  const double vendor_us = table.time_one("cusparse");
  table.time_several(gpus, "cusparse", Exchange::kGathered, vendor_us);
  table.print(gpus, "best of ours", way.c_str(), best, best_one_us / best.product_us);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    tessera::require(argc >= 4, "usage: tessera_distributed_times GPUS N MATRIX...");
    tessera::Table::print_header();
    for (int i = 3; i < argc; ++i)
      tessera::print_times(std::stoi(argv[1]), std::stoll(argv[2]), argv[i]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera_distributed_times: {}\n", error.what());
    return 1;
  }
}
