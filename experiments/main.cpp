// tessera: the command line. Every verb registers itself from experiments/verbs/.

#include <fcntl.h>
#include <unistd.h>

#include "experiments/machine/terminal.hpp"
#include "experiments/verbs/program.hpp"
#include "formats/base/check.hpp"

namespace {

/// Occupies the standard streams that the caller has closed: the first files that the program opens
/// would get their numbers, and what it prints. A write to such a stream is an error.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0) open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tessera;
  occupy_closed_streams();
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
