// A verb of the command line: one file each in experiments/verbs/, registered by name.
//
// stdout is data, stderr is progress and messages; what a verb returns is the exit code.
#pragma once

#include <string>
#include <vector>

#include "experiments/points/point.hpp"
#include "experiments/verbs/command_line.hpp"
#include "formats/base/params.hpp"

namespace tessera {

/// The exit codes of every verb.
enum ExitCode {
  kOk = 0,
  kUsage = 2,
  kFailed = 3,
  kWrong = 4,
  kMissing = 5,
  kRefuted = 6,
  kNotJudged = 7,
  kNothingRan = 8,
  kRegression = 9,
  kInterrupted = 130,
};

struct ExitCodeMeaning {
  ExitCode code;
  const char* meaning;
};

/// Their meanings, as --help prints them.
inline constexpr ExitCodeMeaning kExitCodes[] = {
    {kOk, "ok"},
    {kUsage, "usage, config or input error"},
    {kFailed, "some points failed, or this machine has too little memory"},
    {kWrong, "a check failed: wrong numbers"},
    {kMissing, "a required device or feature is missing"},
    {kRefuted, "the results refute an expectation"},
    {kNotJudged, "an expectation could not be judged: too few results"},
    {kNothingRan, "every point was skipped"},
    {kRegression, "a comparison found something slower or broken"},
    {kInterrupted, "interrupted"},
};

/// Of the codes of several configs the one that counts: what is wrong with results before what they
/// say, and that before what they lack.
int worse(int a, int b);

class Verb {
 public:
  static constexpr const char* kKind = "verb";
  virtual ~Verb() = default;

  /// Declares options on the verb's own sub-command.
  virtual void declare(CLI::App& app) = 0;
  /// Runs after the command line is parsed. Throws Error for what the user can mend.
  virtual int run() = 0;
};

/// "k=v" texts as parameters. The declaration of each decides later whether it is a number, a
/// boolean or text.
Params::Given given_params(const std::vector<std::string>& assignments);

/// The folder of an experiment's records: `out` when given, else out/<id>.
std::string records_folder(const std::string& out, const std::string& experiment);

/// Indented JSON on stdout.
void print_json(const Json& json);

}  // namespace tessera
