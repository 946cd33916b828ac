// The time of products on several GPUs of this host over that on one, a line of a table for each
// way: our kernels with the needed rows of B exchanged and with all of them, in FP32 and with B and
// C of 16 bits; in a chain of products, each of which sends the rows of the next B (its time is
// that of one); and the baselines, cuSPARSE on each GPU with all of B gathered (CAGNET's 1D) or
// with a copy of B on each GPU and partial sums added (1.5D). Parts of the time, of the slowest
// GPU, stand beside it: the product of its own rows of B, the exchange alone, and the product of
// the received rows; of the 1.5D product, the product of its share, the gathering of B, and the
// addition of sums. Rows of C, drawn at random, are compared with fp64. A line with the kernel
// "best of ours" has the fastest of our kernels in FP32 on several GPUs over the fastest on one.
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
#include "kernels/device/stored_values.hpp"
#include "kernels/spmm/distributed/chain_plan.hpp"
#include "kernels/spmm/distributed/distributed_plan.hpp"
#include "kernels/spmm/distributed/group_timer.hpp"
#include "kernels/spmm/distributed/replicated_plan.hpp"
#include "kernels/spmm/distributed/stored_rows.hpp"
#include "kernels/spmm/plan/spmm_plan.hpp"
#include "oracle/spmm_oracle.hpp"

namespace tessera {
namespace {

constexpr int kCheckedRows = 200;  // of each part

/// The largest error over |A||B|: TF32 and FP16 round both operands to 2^-11, BF16 to 2^-8, and C
/// of 16 bits is rounded twice at most.
double largest_error(ElementType type) {
  return 0x1p-9 + (type == ElementType::kFp32 ? 0 : 5 * rounding_error(type));
}

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
                const void* c, ElementType type) {
  std::vector<std::int32_t> cols;
  std::vector<std::int64_t> offsets{0};
  std::vector<float> values, found;
  if (rows.empty()) return 0;
  std::vector<std::byte> row(static_cast<std::size_t>(b.cols) * bytes_of(type));
  for (int i = 0; i < kCheckedRows; ++i) {
    const auto place =
        static_cast<std::size_t>(random_bits(2, static_cast<std::uint64_t>(i)) % rows.size());
    const auto of_cols = a.row_cols(rows[place]);
    const auto of_values = a.row_values(rows[place]);
    cols.insert(cols.end(), of_cols.begin(), of_cols.end());
    values.insert(values.end(), of_values.begin(), of_values.end());
    offsets.push_back(std::ssize(cols));
    cuda_check(cudaMemcpy(row.data(), static_cast<const std::byte*>(c) + place * row.size(),
                          row.size(), cudaMemcpyDeviceToHost),
               "copying a row of C");
    const std::vector<float> of_row = widened(type, row);
    found.insert(found.end(), of_row.begin(), of_row.end());
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

/// A kernel and the type of its B and C.
struct Way {
  std::string kernel;
  ElementType type = ElementType::kFp32;

  DistributedOptions options(int gpus) const {
    DistributedOptions made{.parts = gpus, .kernel = kernel};
    if (type != ElementType::kFp32) made.params["storage"] = std::string(name_of(type));
    return made;
  }
  std::string name() const {
    return type == ElementType::kFp32 ? kernel : fmt::format("{} {}", kernel, name_of(type));
  }
};

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
  const Storage& storage = plan.storage();
  const DeviceArray<std::byte> own = upload_as(storage.b, own_rows(b, plan.part()).values);
  DeviceArray<std::byte> c(rows.size() * static_cast<std::size_t>(b.cols) * bytes_of(storage.c));
  const auto median_of = [&](const std::function<void()>& work) {
    return median(time_together(comm, work));
  };
  Times times;
  times.product_us = median_of([&] { plan.run(own.data(), c.data()); });
  times.error = error_of(a, b, rows, c.data(), storage.c);
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

/// What keeps the elements of A X about as large as those of X.
float steadying(const CsrMatrix& a) {
  double most = 1;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const auto values = a.row_values(row);
    most = std::max(most, std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  }
  return static_cast<float>(1 / std::sqrt(most));
}

/// One product of a chain, an eighth of eight with the first exchange. The error is that of the
/// first one.
Times time_chain(const CsrMatrix& a, const DenseMatrix& b, const DistributedOptions& options,
                 DeviceCommunicator& comm) {
  constexpr int kProducts = 8;
  ChainSpmmPlan plan(a, b.cols, options, comm);
  const auto& rows = plan.part().rows;
  const DeviceArray<std::byte> own = upload_as(plan.storage().b, rows_of(b, rows).values);
  plan.start(own.data());
  plan.multiply();
  comm.wait(nullptr);
  Times times;
  times.error = error_of(a, b, rows, plan.rows(), plan.storage().c);
  const float alpha = steadying(a);
  times.product_us = median(time_together(comm,
                                          [&] {
                                            plan.start(own.data());
                                            for (int i = 0; i < kProducts; ++i)
                                              plan.multiply(alpha);
                                          })) /
                     kProducts;
  return times;
}

/// The 1.5D product.
Times time_replicated(const CsrMatrix& a, const DenseMatrix& b, const ReplicatedOptions& options,
                      DeviceCommunicator& comm) {
  ReplicatedSpmmPlan plan(a, b.cols, options, comm);
  const RowRange &of_c = plan.layout().rows(comm.rank()), &of_b = plan.layout().b_rows(comm.rank());
  const DeviceArray<float> own(
      std::span(b.values).subspan(static_cast<std::size_t>(of_b.first * b.cols),
                                  static_cast<std::size_t>(of_b.count * b.cols)));
  DeviceArray<float> c(static_cast<std::size_t>(of_c.count * b.cols));
  std::vector<std::int32_t> rows(static_cast<std::size_t>(of_c.count));
  std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(of_c.first));
  const auto median_of = [&](const std::function<void()>& work) {
    return median(time_together(comm, work));
  };
  Times times;
  times.product_us = median_of([&] { plan.run(own.data(), c.data()); });
  plan.run(own.data(), c.data());
  comm.wait(nullptr);
  times.error = error_of(a, b, rows, c.data(), ElementType::kFp32);
  times.own_us = median_of([&] { plan.multiply(c.data(), nullptr); });
  times.exchange_us = median_of([&] { plan.gather(own.data(), nullptr); });
  times.received_us = median_of([&] { plan.add_copies(c.data(), nullptr); });
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
  double time_one(const Way& way) const {
    SpmmPlan plan(a_, b_.cols, {.candidates = {{way.kernel}}, .storage = {way.type, way.type}});
    const DeviceArray<std::byte> b = upload_as(way.type, b_.values);
    DeviceArray<std::byte> c(static_cast<std::size_t>(a_.rows * b_.cols) * bytes_of(way.type));
    Times times;
    times.product_us = median_us([&] { plan.run(b.data(), c.data()); });
    std::vector<std::int32_t> rows(static_cast<std::size_t>(a_.rows));
    std::iota(rows.begin(), rows.end(), 0);
    times.error = error_of(a_, b_, rows, c.data(), way.type);
    print(1, way, "none", times, 1);
    return times.product_us;
  }

  /// The product on several GPUs, beside the time on one.
  Times time_several(int gpus, const Way& way, Exchange exchange, double one_us) const {
    DistributedOptions options = way.options(gpus);
    options.exchange = exchange;
    const Distribution distribution = distribute(a_, b_.cols, options);
    Times slowest = slowest_of(gpus, [&](DeviceCommunicator& comm) {
      return time_rank(a_, b_, options, distribution, comm);
    });
    slowest.bytes = distribution.bytes_exchanged();
    slowest.bound = distribution.bound_bytes();
    print(gpus, way, name_of(exchange), slowest, one_us / slowest.product_us);
    return slowest;
  }

  /// A product of a chain, likewise.
  void time_chain_on(int gpus, const Way& way, double one_us) const {
    DistributedOptions options = way.options(gpus);
    options.exchange = Exchange::kNeeded;
    const Distribution distribution = distribute(a_, b_.cols, options);
    Times slowest = slowest_of(
        gpus, [&](DeviceCommunicator& comm) { return time_chain(a_, b_, options, comm); });
    slowest.bytes = distribution.bytes_exchanged();
    slowest.bound = distribution.bound_bytes();
    print(gpus, way, "next", slowest, one_us / slowest.product_us);
  }

  /// The 1.5D product with a copy of B on every GPU, likewise.
  void time_replicated_on(int gpus, const Way& way, double one_us) const {
    const ReplicatedOptions options{.parts = gpus, .copies = gpus, .kernel = way.kernel};
    Times slowest = slowest_of(
        gpus, [&](DeviceCommunicator& comm) { return time_replicated(a_, b_, options, comm); });
    slowest.bytes = ReplicatedLayout(a_, options).rows_exchanged() * b_.cols *
                    static_cast<std::int64_t>(sizeof(float));
    print(gpus, way, "1.5D", slowest, one_us / slowest.product_us);
  }

  void print(int gpus, const Way& way, const char* exchange, const Times& times,
             double over_one) const {
    fmt::print("\"{}\",{},{},{},{},{},{},{},{:.1f},{:.3f},{:.1f},{:.1f},{:.1f},{},{},{:.3g},{}\n",
               matrix_, a_.rows, a_.nnz(), b_.cols, gpu_, gpus, way.name(), exchange,
               times.product_us, over_one, times.own_us, times.exchange_us, times.received_us,
               times.bytes, times.bound, times.error,
               times.error <= largest_error(way.type) ? "right" : "WRONG");
    std::fflush(stdout);
  }

 private:
  /// The times of the slowest GPU.
  template <class Time>
  static Times slowest_of(int gpus, Time time_of) {
    Times slowest;
    std::mutex mutex;
    run_on_devices(first_devices(gpus), [&](DeviceCommunicator& comm) {
      const Times times = time_of(comm);
      const std::lock_guard lock(mutex);
      for (double Times::*time : {&Times::product_us, &Times::own_us, &Times::exchange_us,
                                  &Times::received_us, &Times::error})
        slowest.*time = std::max(slowest.*time, times.*time);
    });
    return slowest;
  }

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
  std::string exchange_of_best;
  for (const char* kernel : {"tessera_spmm", "rows_spmm"}) {
    const Way way{kernel};
    const double one_us = table.time_one(way);
    best_one_us = std::min(best_one_us, one_us);
    for (const Exchange exchange : {Exchange::kNeeded, Exchange::kReplicated}) {
      const Times times = table.time_several(gpus, way, exchange, one_us);
      if (times.product_us < best.product_us) best = times, exchange_of_best = name_of(exchange);
    }
    if (a.rows == a.cols) table.time_chain_on(gpus, way, one_us);
  }
  table.print(gpus, {"best of ours"}, exchange_of_best.c_str(), best,
              best_one_us / best.product_us);
  for (const Way& way :
       {Way{"tessera_spmm", ElementType::kFp16}, Way{"rows_spmm", ElementType::kBf16}}) {
    const double one_us = table.time_one(way);
    table.time_several(gpus, way, Exchange::kNeeded, one_us);
    if (a.rows == a.cols) table.time_chain_on(gpus, way, one_us);
  }
  const Way vendor{"cusparse"};
  const double vendor_us = table.time_one(vendor);
  table.time_several(gpus, vendor, Exchange::kGathered, vendor_us);
  table.time_replicated_on(gpus, vendor, vendor_us);
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
