#include "tests/attack/attack_case.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "formats/base/check.hpp"
#include "formats/base/random.hpp"
#include "formats/base/registry.hpp"
#include "formats/format.hpp"
#include "formats/io/new_file.hpp"
#include "kernels/spmm_kernel.hpp"

namespace tessera {
namespace {

template <class T>
T any_of(RandomSequence& random, const std::vector<T>& values) {
  return values[random.below(values.size())];
}

using Keep = std::function<bool(std::int32_t row, std::int32_t col)>;

/// The values of an operand. One stream of random numbers gives them in their order.
class Values {
 public:
  explicit Values(RandomSequence& random)
      : kind_(random.below(2) != 0 ? Kind::kUniform
                                   : static_cast<Kind>(random.below(static_cast<int>(Kind::kEnd)))),
        random_(random.bits()) {}

  float next() {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const std::uint64_t bits = random_.bits();
    const float value = random_signed(bits, 0), sign = std::copysign(1.0f, value);
    const int place = static_cast<int>(bits % 256);
    const bool rare = place < 8;
    switch (kind_) {
      case Kind::kSubnormal:
        return value * 0x1p-126f;
      case Kind::kSmallest:
        return sign * 0x1p-149f;
      case Kind::kHuge:
        return value * 0x1p127f;
      case Kind::kLargest:
        return sign * std::numeric_limits<float>::max();
      case Kind::kZeros:
        return place < 128 ? std::copysign(0.0f, sign) : value;
      case Kind::kNan:
        return rare ? std::numeric_limits<float>::quiet_NaN() : value;
      case Kind::kInfinite:
        return rare ? sign * kInfinity : value;
      case Kind::kPowers:
        return sign * std::ldexp(1.0f, place % 21 - 10);
      case Kind::kWide:
        return std::ldexp(value, place - 128);
      case Kind::kEndOfFp16:
        return rare
                   ? sign * any_of<float>(random_, {65504, 65519, 65520, 70000, 0x1p-24f, 0x1p-25f})
                   : value;
      case Kind::kUniform:
      case Kind::kEnd:
        break;
    }
    return value;
  }

 private:
  enum class Kind {
    kUniform,
    kSubnormal,
    kSmallest,
    kHuge,
    kLargest,
    kZeros,
    kNan,
    kInfinite,
    kPowers,
    kWide,
    kEndOfFp16,
    kEnd
  };
  Kind kind_;
  RandomSequence random_;
};

CsrMatrix matrix_of(std::int32_t rows, std::int32_t cols, const Keep& keep, Values values) {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> indices;
  std::vector<float> numbers;
  for (std::int32_t i = 0; i < rows; ++i) {
    for (std::int32_t j = 0; j < cols; ++j) {
      if (!keep(i, j)) continue;
      indices.push_back(j);
      numbers.push_back(values.next());
    }
    offsets.push_back(std::ssize(indices));
  }
  return {rows, cols, std::move(offsets), std::move(indices), std::move(numbers)};
}

/// Keeps exactly length(row) cells of a row, or all where it has fewer: a run, or one spread by a
/// stride that is coprime to the number of columns.
Keep of_length(std::int32_t cols, std::uint64_t seed, bool spread,
               const std::function<std::int64_t(std::int32_t)>& length) {
  std::int64_t stride = 1;
  if (spread)
    for (stride = cols / 2 + 1; std::gcd<std::int64_t>(stride, cols) != 1;) ++stride;
  return [=](std::int32_t row, std::int32_t col) {
    const std::uint64_t start = random_bits(seed, row) % cols;
    return static_cast<std::int64_t>((start + col * stride) % cols) < length(row);
  };
}

CsrMatrix draw_matrix(RandomSequence& random) {
  static const std::vector<std::int32_t> kSizes{1,  2,  3,  5,  7,  8,  9,   15,  16,  17,  31,
                                                32, 33, 63, 64, 65, 90, 127, 128, 129, 200, 257};
  enum {
    kNone,
    kOne,
    kRow,
    kCol,
    kRandom,
    kDenseRow,
    kDenseCol,
    kOneCol,
    kPower,
    kSorted,
    kClustered,
    kDiagonal,
    kHub,
    kFull,
    kEnd
  };
  const auto shape = random.below(kEnd);
  const std::uint64_t seed = random.bits();
  std::int32_t rows = any_of(random, kSizes), cols = any_of(random, kSizes);
  if (shape == kOne) rows = cols = 1;
  if (shape == kRow) rows = 1, cols = any_of<std::int32_t>(random, {1, 31, 257, 3000});
  if (shape == kCol) cols = 1, rows = any_of<std::int32_t>(random, {1, 31, 257, 3000});
  if (shape == kHub) rows = 1 + rows % 33, cols = 1000 + cols * 20;
  const double density = any_of<double>(random, {0.003, 0.03, 0.1, 0.3, 0.8});
  const auto thin = [=](std::int32_t i, std::int32_t j) {
    return random_unit(seed, static_cast<std::uint64_t>(i) * cols + j) < density;
  };
  const auto power = static_cast<std::int64_t>(1) << random.below(8);
  const auto which = static_cast<std::int32_t>(random.below(std::max(rows, cols)));
  const bool spread = random.below(2) != 0, reversed = random.below(2) != 0;
  Keep keep = thin;
  if (shape == kNone) keep = [](int, int) { return false; };
  if (shape == kFull || shape == kOne) keep = [](int, int) { return true; };
  if (shape == kDenseRow) keep = [=](int i, int j) { return i == which % rows || thin(i, j); };
  if (shape == kDenseCol) keep = [=](int i, int j) { return j == which % cols || thin(i, j); };
  if (shape == kOneCol) keep = [=](int, int j) { return j == which % cols; };
  if (shape == kPower)
    keep = of_length(cols, seed, spread, [=](std::int32_t row) {
      return power + static_cast<std::int64_t>(random_bits(seed + 1, row) % 3) - 1;
    });
  if (shape == kSorted)
    keep = of_length(cols, seed, spread, [=](std::int32_t row) {
      return std::int64_t{cols} * (reversed ? row : rows - row) / (2 * rows);
    });
  if (shape == kClustered)
    keep = [=](int i, int j) { return j / 8 % 8 == which % 8 && (spread || thin(i, j)); };
  if (shape == kDiagonal)
    keep = [=](int i, int j) { return i / (which % 20 + 1) == j / (which % 20 + 1); };
  if (shape == kHub) keep = [=](int i, int j) { return i == which % rows || thin(i, j / 64 + j); };

  // Rows and columns without nonzeros, in runs.
  const std::uint64_t holes = random.below(6);
  const int run = 1 << random.below(6);
  const auto hollow = [=](int i, int j) {
    if (holes == 0 && random_bits(seed + 2, i / run) % 2 != 0) return false;
    if (holes == 1 && random_bits(seed + 3, j / run) % 2 != 0) return false;
    return keep(i, j);
  };
  return matrix_of(rows, cols, hollow, Values(random));
}

std::int64_t draw_n(RandomSequence& random, std::int64_t nnz, std::int64_t most) {
  std::int64_t n = 1 + static_cast<std::int64_t>(random.below(17));
  if (random.below(2) != 0)
    n = any_of<std::int64_t>(random, {8, 16, 24, 32, 64, 96, 128, 160, 256}) - 1 +
        static_cast<std::int64_t>(random.below(3));
  if (random.below(40) == 0)
    n = any_of<std::int64_t>(random, {511, 512, 513, 1000, 1023, 1024, 1025});
  constexpr std::int64_t kProducts = 300000;  // a case takes some ten milliseconds
  return std::clamp<std::int64_t>(std::min(n, kProducts / std::max<std::int64_t>(nnz, 1)), 1, most);
}

/// False for parameters that the kernel does not take together, seen on a matrix of one cell.
bool takes(const Choice& choice) {
  const CsrMatrix a{1, 1, std::vector<std::int64_t>{0, 1}, std::vector<std::int32_t>{0},
                    std::vector<float>{1}};
  try {
    const auto kernel = Registry<SpmmKernel>::instance().make(choice.kernel, choice.params);
    const auto packed = Registry<Format>::instance().make(kernel->format(), choice.format)->pack(a);
    kernel->emulate(*packed, random_dense(1, 1, 1), find_generation("hopper"));
  } catch (const Error&) {
    return false;
  }
  return true;
}

Choice draw_choice(RandomSequence& random) {
  const Choice listed = any_of(random, kernel_choices());
  // With more than two thread blocks the order of its sums is that of the launch.
  if (adds_parts_to_c(listed) || random.below(2) != 0) return listed;
  Choice drawn = listed;
  for (const ParamSpec& param : Registry<SpmmKernel>::instance().find(listed.kernel).params) {
    if (random.below(3) != 0) continue;
    std::vector<std::string> values = param.choices;
    if (values.empty() && std::holds_alternative<bool>(param.fallback)) values = {"true", "false"};
    if (values.empty() && std::holds_alternative<std::int64_t>(param.fallback))
      values = {"1", "2", "3", "4", "5", "7", "8", "16", "32", "64", "128"};
    if (!values.empty()) drawn.params[param.name] = any_of(random, values);
  }
  return takes(drawn) ? drawn : listed;
}

using Json = nlohmann::json;

Json to_json(const Params::Given& params) {
  Json json = Json::object();
  for (const auto& [name, value] : params) json[name] = to_text(value);
  return json;
}

/// Values as text: JSON has no NaN, and the shortest decimal that gives an FP32 value back.
template <class Floats>
Json to_json(const Floats& values) {
  std::vector<std::string> texts;
  for (const float value : values) texts.push_back(fmt::format("{}", value));
  return texts;
}

std::vector<float> floats_of(const Json& json) {
  std::vector<float> values;
  for (const Json& text : json)
    values.push_back(std::strtof(text.get<std::string>().c_str(), nullptr));
  return values;
}

Params::Given params_of(const Json& json) {
  Params::Given params;
  for (const auto& [name, value] : json.items()) params[name] = value.get<std::string>();
  return params;
}

}  // namespace

AttackCase draw_case(std::uint64_t seed) {
  RandomSequence random(seed);
  AttackCase drawn;
  drawn.choice = draw_choice(random);
  drawn.a = draw_matrix(random);
  const std::int64_t n = draw_n(random, drawn.a.nnz(), drawn.choice.most_cols);
  drawn.b = DenseMatrix(drawn.a.cols, n);
  Values values(random);
  for (float& value : drawn.b.values) value = values.next();
  if (random.below(4) == 0)
    drawn.generation = any_of<std::string>(random, {"ampere", "ada", "blackwell"});
  if (drawn.choice.emulated && random.below(2) != 0)
    drawn.scaling = {any_of<float>(random, {0, 1, -1.7f, 0x1p100f}),
                     any_of<float>(random, {0, 1, 0.3f, -0x1p100f})};
  return drawn;
}

CsrMatrix uneven_matrix() {
  constexpr std::int32_t kRows = 83, kCols = 157;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> cols;
  std::vector<float> values;
  for (std::int32_t i = 0; i < kRows; ++i) {
    for (std::int32_t j = 0; j < kCols; ++j) {
      const std::uint64_t draw = random_bits(1, static_cast<std::uint64_t>(i) * kCols + j);
      const bool few = draw % 100 < 6 && (i < 33 || i > 50);
      if (i != 17 && !(i == 60 && j % 2 == 0) && !few) continue;
      cols.push_back(j);
      values.push_back(random_signed(2, draw));
    }
    offsets.push_back(std::ssize(cols));
  }
  return {kRows, kCols, std::move(offsets), std::move(cols), std::move(values)};
}

bool adds_parts_to_c(const Choice& choice) { return choice.kernel == "shares_spmm"; }

std::string describe(const AttackCase& given) {
  std::string chosen = text_of(given.choice.params) + text_of(given.choice.format);
  if (!chosen.empty()) chosen.pop_back();
  return fmt::format("{} ({}), {}, A {} x {} with {} nonzeros, N = {}, alpha {}, beta {}",
                     given.choice.kernel, chosen, given.generation, given.a.rows, given.a.cols,
                     given.a.nnz(), given.b.cols, given.scaling.alpha, given.scaling.beta);
}

void save_case(const AttackCase& given, const std::string& path) {
  const CsrMatrix& a = given.a;
  const Json json{{"kernel", given.choice.kernel},
                  {"params", to_json(given.choice.params)},
                  {"format", to_json(given.choice.format)},
                  {"emulated", given.choice.emulated},
                  {"generation", given.generation},
                  {"scaling", to_json(std::vector{given.scaling.alpha, given.scaling.beta})},
                  {"a",
                   {{"rows", a.rows},
                    {"cols", a.cols},
                    {"row_offsets", std::vector(a.row_offsets.begin(), a.row_offsets.end())},
                    {"col_indices", std::vector(a.col_indices.begin(), a.col_indices.end())},
                    {"values", to_json(a.values)}}},
                  {"b", {{"cols", given.b.cols}, {"values", to_json(given.b.values)}}}};
  NewFile file(path);
  require((std::ofstream(file.path()) << json.dump() << "\n").flush().good(), "cannot write {}",
          path);
  file.keep();
}

AttackCase load_case(const std::string& path) {
  AttackCase loaded;
  try {
    std::ifstream file(path);
    require(file.good(), "cannot be read");
    const Json json = Json::parse(file);
    loaded.choice.kernel = json.at("kernel");
    loaded.choice.params = params_of(json.at("params"));
    loaded.choice.format = params_of(json.at("format"));
    loaded.choice.emulated = json.at("emulated");
    loaded.generation = json.at("generation");
    const std::vector<float> scaling = floats_of(json.at("scaling"));
    require(scaling.size() == 2, "scaling has {} values, not 2", scaling.size());
    loaded.scaling = {scaling[0], scaling[1]};
    const Json& a = json.at("a");
    loaded.a = {a.at("rows"), a.at("cols"), a.at("row_offsets").get<std::vector<std::int64_t>>(),
                a.at("col_indices").get<std::vector<std::int32_t>>(), floats_of(a.at("values"))};
    validate(loaded.a);
    loaded.b = DenseMatrix(loaded.a.cols, json.at("b").at("cols").get<std::int64_t>());
    const std::vector<float> values = floats_of(json.at("b").at("values"));
    require(values.size() == loaded.b.values.size(), "B has {} values, not {}", values.size(),
            loaded.b.values.size());
    loaded.b.values = values;
  } catch (const std::exception& error) {
    throw Error(fmt::format("{}: {}", path, error.what()));
  }
  return loaded;
}

}  // namespace tessera
