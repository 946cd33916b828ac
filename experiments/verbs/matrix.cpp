// tessera matrix: statistics, conversion, generation, verification and download of matrices.

#include <filesystem>
#include <functional>

#include "experiments/machine/terminal.hpp"
#include "experiments/verbs/fetch_matrices.hpp"
#include "experiments/verbs/permutation_file.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/amounts.hpp"
#include "formats/base/check.hpp"
#include "formats/base/escaped.hpp"
#include "formats/base/registry.hpp"
#include "formats/io/matrix_file.hpp"
#include "formats/io/source.hpp"
#include "formats/statistics/named_statistics.hpp"

namespace tessera {
namespace {

Json to_json(const ParamValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

class MatrixVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.require_subcommand(1);
    add(app, "info", "statistics: rows, tiles, windows, synergy, IBD, bandwidth", [&](CLI::App& s) {
      s.add_option("MATRIX", names_, "matrices: files, generators, names")->required();
      declare_order(s);
      s.add_flag("--json", json_, "print JSON");
      s.example("tessera matrix info 'rmat(scale=12)'", "a generated matrix");
      return [this] { return info(); };
    });
    add(app, "convert", "read a matrix and write it in another format", [&](CLI::App& s) {
      s.add_option("FROM", from_, "the matrix: a file, a generator or a name")
          ->required()
          ->takes("MATRIX");
      s.add_option("TO", to_, "output file, whose ending selects the format")
          ->required()
          ->takes("FILE");
      declare_order(s);
      s.example("tessera matrix convert graph.mtx graph.npz", "Matrix Market to SciPy");
      return [this] { return convert(); };
    });
    add(app, "generate", "write a generated matrix to a file", [&](CLI::App& s) {
      s.add_option("GENERATOR", from_, "as in rmat(scale=14); see `tessera list generators`")
          ->required();
      s.add_option("TO", to_, "output file, whose ending selects the format")
          ->required()
          ->takes("FILE");
      s.example("tessera matrix generate 'poisson2d(nx=100, ny=100)' p.mtx", "a mesh as a file");
      return [this] { return generate(); };
    });
    add(app, "verify", "read matrices anew, past the cache, and check them", [&](CLI::App& s) {
      s.add_option("MATRIX", names_, "matrices")->required();
      s.add_option("--hash", expected_hash_, "expected content hash")->takes("DIGITS");
      s.example("tessera matrix verify graph.mtx", "is the file as it was when it was first read?");
      return [this] { return verify(); };
    });
    add(app, "fetch", "download matrices of SuiteSparse and SNAP, one by one or whole sets",
        [&](CLI::App& s) {
          s.add_option("NAME", request_.names,
                       "GROUP/NAME of SuiteSparse, snap/NAME of SNAP, a matrix of the shipped "
                       "sets, or @SET for all of one; for a set that is a query the collection's "
                       "index comes first")
              ->required();
          s.add_flag("--dry-run", request_.dry_run, "show what there is to download, with sizes");
          s.add_option("--sha256", request_.sha256,
                       "checksum that the file has to have (default: that of an earlier download)")
              ->takes("DIGITS");
          s.add_option("--mirror", request_.mirror,
                       "base URL to use in place of the collection's own")
              ->takes("URL");
          s.example("tessera matrix fetch @real_matrices --dry-run",
                    "what a set takes to download");
          s.example("tessera matrix fetch HB/bcsstk17 wave", "afterwards: tessera multiply wave");
          s.example("tessera matrix fetch @cutespmm_1099 --dry-run",
                    "the paper's matrices, as the collection's index has them");
          return [this] { return fetch_matrices(request_); };
        });
  }

  int run() override { return action_(); }

 private:
  using Action = std::function<int()>;

  template <class Declare>
  void add(CLI::App& app, const char* name, const char* help, Declare declare) {
    CLI::App* sub = app.add_subcommand(name, help);
    const Action action = declare(*sub);
    sub->callback([this, action] { action_ = action; });
  }

  void declare_order(CLI::App& sub) {
    sub.add_option("--apply", order_file_,
                   "file with the permutation of the rows, old_of_new: .txt or .npy")
        ->takes("FILE");
    sub.add_flag("--symmetric", symmetric_, "apply the permutation to the columns too");
  }

  CsrMatrix ordered(const CsrMatrix& matrix) const {
    if (order_file_.empty()) return matrix;
    return apply(matrix, order_from_file(order_file_, matrix, symmetric_));
  }

  /// For people: six significant digits.
  static std::string short_text(const ParamValue& value) {
    const double* number = std::get_if<double>(&value);
    return number != nullptr ? fmt::format("{:.6g}", *number) : to_text(value);
  }

  static void tell(const std::vector<NamedValue>& values) {
    std::string group;
    for (const NamedValue& figure : values) {
      if (figure.group != group) fmt::print("{}\n", group = figure.group);
      fmt::print("  {:38} {}\n", figure.name, short_text(figure.value));
    }
  }

  int info() const {
    Json list = Json::array();
    for (const std::string& name : names_) {
      const LoadedMatrix loaded = load_matrix(name);
      const auto values = named_values(statistics(ordered(loaded.matrix)));
      Json json{{"matrix", loaded.source.name},        {"source", loaded.source.canonical},
                {"hash", loaded.content_hash},         {"load_s", loaded.load_s},
                {"cached", loaded.from_cache},         {"synthetic", loaded.source.synthetic()},
                {"pattern", is_pattern(loaded.matrix)}};
      for (const NamedValue& figure : values) json[figure.name] = to_json(figure.value);
      if (!json_) {
        fmt::print("{}  ({}{})\n", loaded.source.name, loaded.source.canonical,
                   is_pattern(loaded.matrix) ? ", all values one" : "");
        tell(values);
        fmt::print("file\n  {:38} {}\n  {:38} {:.3f}{}\n", "content_hash", loaded.content_hash,
                   "load_s", loaded.load_s, loaded.from_cache ? " (cached)" : "");
      }
      list.push_back(std::move(json));
    }
    if (json_) print_json(list);
    return kOk;
  }

  int convert() const {
    const LoadedMatrix loaded = load_matrix(from_);
    write(ordered(loaded.matrix));
    return kOk;
  }

  int generate() const {
    const MatrixSource source = find_matrix(from_);
    require(source.synthetic(), "{} is a file, not a generator; use `tessera matrix convert`",
            from_);
    write(load_matrix(source).matrix);
    return kOk;
  }

  void write(const CsrMatrix& matrix) const {
    write_matrix(matrix, to_);
    fmt::print(stderr, "{}: {} x {}, {}, {}\n", escaped(to_), matrix.rows, matrix.cols,
               counted(matrix.nnz(), "nonzero"),
               bytes_text(static_cast<double>(std::filesystem::file_size(to_))));
  }

  int verify() const {
    bool all_right = true;
    for (const std::string& name : names_) {
      const LoadedMatrix fresh = load_matrix(find_matrix(name), false);
      validate(fresh.matrix);
      const std::string known = known_content_hash(fresh.source);
      std::string verdict = "right";
      if (!expected_hash_.empty() && expected_hash_ != fresh.content_hash)
        verdict = fmt::format("WRONG: its content hash is not {}", expected_hash_);
      else if (!known.empty() && known != fresh.content_hash)
        verdict = fmt::format("WRONG: the cache knows it as {}", known);
      all_right &= verdict == "right";
      fmt::print("{}  {} x {}, {}, content hash {}: {}\n", fresh.source.name, fresh.matrix.rows,
                 fresh.matrix.cols, counted(fresh.matrix.nnz(), "nonzero"), fresh.content_hash,
                 toned(verdict == "right" ? Tone::kGood : Tone::kError, verdict));
    }
    return all_right ? kOk : kWrong;
  }

  std::vector<std::string> names_;
  std::string from_, to_, order_file_, expected_hash_;
  FetchRequest request_;
  bool symmetric_ = false;
  bool json_ = false;
  Action action_;
};

const Register<Verb> entry{{
    .name = "matrix",
    .summary = "describe, convert, generate, verify and fetch matrices",
    .make = [](const Params&) { return std::make_unique<MatrixVerb>(); },
}};

}  // namespace
}  // namespace tessera
