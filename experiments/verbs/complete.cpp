// tessera complete: the completion of the shells.

#include "experiments/verbs/completion.hpp"
#include "experiments/verbs/program.hpp"
#include "formats/base/registry.hpp"

namespace tessera {
namespace {

class CompleteVerb final : public Verb {
 public:
  void declare(CLI::App& app) override {
    app.add_option("SHELL", shell_,
                   "print the script for this shell; or words, which the scripts call with the "
                   "words typed so far")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish", "words"}));
    app.add_option("WORDS", words_, "after --: the words that follow the program's name");
    app.example("eval \"$(tessera complete bash)\"",
                "completion in this bash; a line of ~/.bashrc");
    app.example("tessera complete zsh > ~/.zsh/functions/_tessera", "a folder of zsh's $fpath");
    app.example("tessera complete fish > ~/.config/fish/completions/tessera.fish",
                "completion in every fish");
  }

  int run() override {
    if (shell_ != "words") {
      fmt::print("{}", completion_script(shell_));
      return kOk;
    }
    const KnownValues found = completions(Program().description(), words_);
    for (const KnownValue& one : found.values) fmt::print("{}\t{}\n", one.value, one.summary);
    if (found.files) fmt::print(":files\n");
    return kOk;
  }

 private:
  std::string shell_;
  std::vector<std::string> words_;
};

const Register<Verb> entry{{
    .name = "complete",
    .summary = "print the completion script of a shell: bash, zsh or fish",
    .make = [](const Params&) { return std::make_unique<CompleteVerb>(); },
}};

}  // namespace
}  // namespace tessera
