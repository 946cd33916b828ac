// tessera report: records as a page that is read in a browser, or all committed results as a site.

#include <algorithm>
#include <filesystem>

#include "experiments/machine/machine.hpp"
#include "experiments/tables/open_config.hpp"
#include "experiments/tables/page_data.hpp"
#include "experiments/tables/python.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "experiments/verbs/verb.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"
#include "formats/base/shipped_files.hpp"
#include "formats/io/new_file.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class ReportVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("SOURCE", sources_,
                   "config files or names of shipped experiments; or folders or files of records");
    app.add_option("--out", out_,
                   "folder of the records of a config (default: out/<experiment id>)");
    app.add_option(
        "--to", to_,
        "file of the page (default: report.html beside the records of the first source)");
    app.add_option("--set", sets_, "override a key of the config")->allow_extra_args(false);
    app.add_flag("--as-written", as_written_,
                 "show configs as they are written, whatever the records hold");
    app.add_option("--timeline", timelines_,
                   "also show this timeline, a folder that `tessera timeline` has written")
        ->allow_extra_args(false);
    app.add_option("--site", site_,
                   "folder for a site of all results in experiments/results, in place of a page")
        ->excludes("SOURCE");
    app.add_flag("--json", json_, "print the data of the page, and make no page");
    app.example("tessera report quickstart",
                "a page for the browser, after tessera run quickstart");
  }

  int run() override {
    require(!sources_.empty() || !site_.empty(),
            "expected a config, a folder of records, or --site DIR");
    Json document{{"schema", 1},
                  {"made", {{"at", utc_now()}, {"build", build_description()}}},
                  {"columns", row_columns()},
                  {"timelines", timelines_},
                  {"experiments", Json::array()}};
    if (!site_.empty()) return make_site(std::move(document));
    for (const std::string& source : sources_)
      document["experiments"].push_back(page_data(report_on(source)));
    if (json_) {
      print_json(document);
      return kOk;
    }
    const std::string page = to_.empty() ? default_page() : to_;
    return draw("page.py", page, document, {page});
  }

 private:
  /// A name without a folder that is both a shipped experiment and a folder means the experiment.
  static bool are_records(const std::string& source) {
    if (source.ends_with(".jsonl")) return true;
    return fs::is_directory(source) && (source.find('/') != std::string::npos ||
                                        std::ranges::count(shipped_configs(), source) == 0);
  }

  Report report_on(const std::string& source) const {
    if (are_records(source)) return report_on_records(source);
    const std::string records = records_folder(out_, load_config(source, sets_).id);
    return read_report(open_config({source, sets_, as_written_}, records), records);
  }

  std::string default_page() const {
    const std::string& first = sources_.front();
    fs::path folder = first;
    if (!are_records(first))
      folder = records_folder(out_, load_config(first, sets_).id);
    else if (!fs::is_directory(folder))
      folder = folder.parent_path();
    return (folder / "report.html").string();
  }

  int make_site(Json document) const {
    const fs::path results = shipped_path("experiments/results");
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(results)) {
      if (entry.path().extension() != ".jsonl") continue;
      Json page = page_data(report_on_records(entry.path().string()));
      page["id"] = fs::relative(entry.path(), results).string();
      document["experiments"].push_back(std::move(page));
    }
    fs::create_directories(site_);
    return draw("site_pages.py", site_ + "/index.html", document, {results.string(), site_});
  }

  /// Runs a script of notebooks/report/ on the document, which lies beside its page until then, and
  /// prints the page's path. The script says what it lacks, and exits with kMissing.
  static int draw(const std::string& script, const std::string& page, const Json& document,
                  const std::vector<std::string>& arguments) {
    make_folder_of(page);
    const NewFile scratch(page + ".data.json");  // never kept
    const std::string& data = scratch.path();
    write_file(data, document.dump(-1, ' ', false, Json::error_handler_t::replace));
    std::vector<std::string> command{find_python(), "-B",
                                     shipped_path("notebooks/report/" + script), data};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const int code = run_program(command);
    if (code == kMissing) return kMissing;
    require(code == kOk, "{} failed", fmt::join(command, " "));
    fmt::print("{}\n", page);
    return kOk;
  }

  std::vector<std::string> sources_, sets_, timelines_;
  std::string out_, to_, site_;
  bool as_written_ = false;
  bool json_ = false;
};

const Register<Verb> entry{{
    .name = "report",
    .summary = "make a page of an experiment for the browser: verdicts, tables, figures, points",
    .make = [](const Params&) { return std::make_unique<ReportVerb>(); },
}};

}  // namespace
}  // namespace tessera
