// tessera: the command line. Every verb registers itself from experiments/verbs/.

#include "experiments/machine/terminal.hpp"
#include "experiments/verbs/program.hpp"
#include "formats/base/check.hpp"

int main(int argc, char** argv) {
  using namespace tessera;
  try {
    const int code = Program().run(argc, argv);
    try {
      finish_stdout();
    } catch (const Error& error) {
      say_error(error.what());
      return kFailed;
    }
    return code;
  } catch (const Error& error) {
    say_error(error.what());
    return kUsage;
  } catch (const std::exception& error) {
    say_error(error.what());
    return kFailed;
  }
}
