// The colours of messages and the width of the terminal.
//
// stdout and stderr are asked apart: `tessera run x | less` still has red errors. Colours are off
// in pipes and files, with NO_COLOR (no-color.org), with TERM=dumb and with CLICOLOR=0;
// CLICOLOR_FORCE=1 turns them on in pipes and files as well. NO_COLOR has the last word.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {

enum class Tone { kPlain, kGood, kWarning, kError, kStrong, kFaint };

bool takes_colours(std::FILE* stream);

/// The text in the colour of the tone where the stream takes colours, else the text alone. Pad
/// before: the codes take no room on the screen, but fmt counts them.
std::string toned(Tone tone, std::string_view text, std::FILE* stream = stdout);

/// The tone of a verdict word: "ok", "right", "met" and their like are good, "skipped" and
/// "differs" a warning, "wrong", "failed", "NOT met" and their like an error; anything else is
/// plain.
Tone tone_of(std::string_view verdict);

/// A verdict word in its tone.
std::string verdict_text(std::string_view verdict, std::FILE* stream = stdout);

/// "error: ..." or "warning: ..." as a line on stderr.
void say_error(std::string_view message);
void say_warning(std::string_view message);
template <class... Args>
requires(sizeof...(Args) > 0) void say_error(fmt::format_string<Args...> format, Args&&... args) {
  say_error(fmt::format(format, std::forward<Args>(args)...));
}

/// Columns of the stream's terminal; 100 where it is none or does not say.
int width_of(std::FILE* stream);

/// Writes out what stdout still holds. Throws an Error when stdout could not be written, now or
/// before: a full disk must not look like success.
void finish_stdout();

}  // namespace tessera
