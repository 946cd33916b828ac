// tessera man: the manual pages, made from what the verbs declare.

#include <algorithm>

#include "experiments/machine/machine.hpp"
#include "experiments/tables/table.hpp"
#include "experiments/tables/write_file.hpp"
#include "experiments/verbs/man_page.hpp"
#include "experiments/verbs/program.hpp"
#include "formats/base/check.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

class ManVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("VERB", verb_, "the verb whose page to print; without one, the program's");
    app.add_option("--out", out_, "write the pages of the program and of all verbs to this folder");
    app.example("tessera man multiply | man -l -", "read the page of a verb");
    app.example("tessera man --out ~/.local/share/man/man1", "afterwards `man tessera-multiply`");
  }

  int run() override {
    const CommandDescription program = Program().description();
    const ManualFacts facts{build_description()["version"], utc_now().substr(0, 10),
                            program.footer};
    if (!out_.empty()) {
      write_page(program, facts);
      for (const CommandDescription& one : program.commands) write_page(one, facts);
      return kOk;
    }
    if (!verb_.empty()) Registry<Verb>::instance().find(verb_);
    const auto found = std::ranges::find_if(
        program.commands, [&](const CommandDescription& one) { return one.name() == verb_; });
    fmt::print("{}", man_page(found == program.commands.end() ? program : *found, facts));
    return kOk;
  }

 private:
  void write_page(const CommandDescription& command, const ManualFacts& facts) const {
    const std::string path = fmt::format("{}/{}.1", out_, man_page_name(command));
    write_file(path, man_page(command, facts));
  }

  std::string verb_, out_;
};

const Register<Verb> entry{{
    .name = "man",
    .summary = "print a manual page, or write all of them",
    .make = [](const Params&) { return std::make_unique<ManVerb>(); },
}};

}  // namespace
}  // namespace tessera
