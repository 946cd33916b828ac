// tessera validate: the MMA instructions of this GPU against their emulation, bit for bit.

#include <filesystem>

#include "experiments/backends/backend.hpp"
#include "experiments/machine/machine.hpp"
#include "experiments/run/instruction_validation.hpp"
#include "experiments/run/progress.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

const std::vector<std::string> kColumns{"instruction", "against",      "family",   "compared",
                                        "values",      "signed_zeros", "nan_bits", "verdict"};

class ValidateVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("--outputs", outputs_, "number of elements per instruction, over all families")
        ->check(CLI::Range(1.0, 1e15));
    app.add_option("--instruction", instruction_,
                   "validate only this instruction, as in m16n8k8.tf32");
    app.add_option("--family", family_, "validate only this family of operands, as in any_bits");
    app.add_option("--seed", seed_, "seed of the operands");
    app.add_option("--out", out_, "write FILE.json and, beside it, FILE.csv")->takes("FILE");
    app.add_flag("--json", json_, "print JSON instead of the table");
    app.example("tessera validate --outputs 1e6", "a first look, within a minute");
  }

  int run() override {
    const std::vector<OperandFamily> families = chosen_families();
    if (!instruction_.empty()) find_instruction(instruction_);
    // A process of its own looks at the GPU: this one must not have touched it before.
    const Json environment = environment_record();
    if (const std::string missing = find_backend("gpu").missing; !missing.empty()) {
      fmt::print(stderr, "nothing to validate: {}\n", missing);
      return kMissing;
    }
    const std::string name = environment.at("gpu").at("tensor_cores");
    if (name.empty()) {
      fmt::print(stderr, "nothing to validate against: the tensor cores of {} are not modelled\n",
                 environment["gpu"]["name"].get<std::string>());
      return kMissing;
    }
    const auto rows = validate(
        instruction_comparisons(find_generation(name), Registry<GpuInstruction>::instance()),
        families);
    report({{"environment", environment},
            {"tensor_cores", name},
            {"outputs_per_instruction", outputs_},
            {"seed", seed_},
            {"rows", rows}},
           rows);
    return wrong_ ? kWrong : kOk;
  }

 private:
  std::vector<OperandFamily> chosen_families() const {
    if (!family_.empty()) return {find_operand_family(family_)};
    return {std::begin(kOperandFamilies), std::end(kOperandFamilies)};
  }

  std::vector<Row> validate(std::vector<Comparison> comparisons,
                            const std::vector<OperandFamily>& families) {
    if (!instruction_.empty())
      std::erase_if(comparisons, [&](const Comparison& c) { return c.name != instruction_; });
    require<Unsupported>(!comparisons.empty(), "this GPU has no {}", instruction_);
    const auto outputs = static_cast<std::int64_t>(outputs_ / static_cast<double>(families.size()));
    std::vector<Row> rows;
    Progress progress(static_cast<int>(comparisons.size() * families.size()));
    for (const Comparison& comparison : comparisons) {
      for (const OperandFamily family : families) {
        const std::string what =
            fmt::format("{} against {}, {}", comparison.name, comparison.against, name_of(family));
        progress.working_on(what);
        rows.push_back(validate_family(comparison, family, std::max<std::int64_t>(outputs, 1)));
        const bool is_wrong = rows.back().at("verdict") == "WRONG";
        wrong_ |= is_wrong;
        progress.done(what, is_wrong ? what + ": WRONG" : "");
      }
    }
    return rows;
  }

  Row validate_family(const Comparison& comparison, OperandFamily family,
                      std::int64_t outputs) const {
    Row row{{"instruction", comparison.name},
            {"against", comparison.against},
            {"family", std::string(name_of(family))}};
    try {
      const BitDifferences found = compare(comparison, family, outputs, seed_);
      row["compared"] = found.compared;
      row["values"] = found.values;
      row["signed_zeros"] = found.signed_zeros;
      row["nan_bits"] = found.nan_bits;
      row["verdict"] = found.total() == 0 ? "equal" : comparison.must_agree ? "WRONG" : "differs";
    } catch (const Unsupported& error) {
      row["verdict"] = fmt::format("skipped: {}", error.what());
    }
    return row;
  }

  void report(const Json& json, const std::vector<Row>& rows) const {
    if (!out_.empty()) {
      const std::filesystem::path file(out_);
      write_file(std::filesystem::path(file).replace_extension("json"), json.dump(2) + "\n");
      write_file(std::filesystem::path(file).replace_extension("csv"), csv_table(rows, kColumns));
    }
    if (json_)
      print_json(json);
    else
      fmt::print("{}", text_table(rows, kColumns));
  }

  double outputs_ = 1e8;
  std::string instruction_, family_, out_;
  std::uint64_t seed_ = 42;
  bool json_ = false;
  bool wrong_ = false;
};

const Register<Verb> entry{{
    .name = "validate",
    .summary = "compare the MMA instructions of this GPU with their emulation, bit for bit",
    .make = [](const Params&) { return std::make_unique<ValidateVerb>(); },
}};

}  // namespace
}  // namespace tessera
