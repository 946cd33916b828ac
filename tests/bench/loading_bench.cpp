// The speed of loading matrices: parsing each file format, and mapping the binary cache instead.

#include <benchmark/benchmark.h>

#include <filesystem>

#include "formats/base/parallel.hpp"
#include "formats/io/cache.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/source.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// 2.5 million nonzeros with ten columns a row, values of full precision.
const CsrMatrix& sample() {
  static const CsrMatrix matrix =
      load_matrix("uniform(rows=250000, cols=250000, per_row=10)", false).matrix;
  return matrix;
}

/// Written once, removed when the program ends.
class SampleFile {
 public:
  explicit SampleFile(const std::string& ending)
      : path_((fs::temp_directory_path() / ("tessera_bench_" + std::to_string(getpid()) + ending))
                  .string()) {
    write_matrix(sample(), path_);
  }
  ~SampleFile() { fs::remove(path_); }
  SampleFile(const SampleFile&) = delete;
  SampleFile& operator=(const SampleFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void parse(benchmark::State& state, const std::string& ending) {
  const SampleFile file(ending);
  set_num_threads(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(read_matrix(file.path()));
  set_num_threads(0);
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(fs::file_size(file.path())));
}
BENCHMARK_CAPTURE(parse, mtx, ".mtx")->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(parse, mtx_gz, ".mtx.gz")->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(parse, npz, ".npz")->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

void map_cache(benchmark::State& state) {
  const fs::path folder =
      fs::temp_directory_path() / ("tessera_bench_cache_" + std::to_string(getpid()));
  {
    const MatrixCache cache(folder.string());
    const std::string hash = content_hash(sample());
    cache.store(sample(), hash);
    for (auto _ : state) benchmark::DoNotOptimize(cache.load(hash));
  }
  fs::remove_all(folder);
}
BENCHMARK(map_cache)->UseRealTime();

}  // namespace
}  // namespace tessera
