#include "experiments/verbs/completion.hpp"

#include <algorithm>
#include <map>

namespace tessera {
namespace {

using Kind = OptionDescription::Kind;

/// The command, and the option that awaits a value, in front of the last word.
struct Place {
  const CommandDescription* command;
  const OptionDescription* awaits = nullptr;  // an option whose value comes next
  std::size_t positionals = 0;                // given so far
  bool options_end = false;                   // after "--"
  std::vector<std::string> given = {};        // options
  std::vector<std::string> variants = {};     // values of --kernel and its like, without parameters
};

const OptionDescription* find_option(const CommandDescription& command, const std::string& name) {
  const auto found = std::ranges::find_if(command.options, [&](const OptionDescription& option) {
    return !option.positional && std::ranges::find(option.names, name) != option.names.end();
  });
  return found == command.options.end() ? nullptr : &*found;
}

void note_value(Place& place, const std::string& value) {
  place.variants.push_back(value.substr(0, value.find('(')));
}

void read_option(Place& place, const std::string& word) {
  const std::size_t equals = word.find('=');
  const OptionDescription* option = find_option(*place.command, word.substr(0, equals));
  if (option == nullptr) return;
  place.given.push_back(option->names.back());
  if (option->kind == Kind::kFlag) return;
  if (equals == word.npos)
    place.awaits = option;
  else
    note_value(place, word.substr(equals + 1));
}

Place read_words(const CommandDescription& program, const std::vector<std::string>& words) {
  Place place{&program};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (place.awaits != nullptr) {
      note_value(place, word);
      place.awaits = nullptr;
      continue;
    }
    if (word == "--") place.options_end = true;
    if (word == "--") continue;
    if (word.starts_with('-') && !place.options_end) {
      read_option(place, word);
      continue;
    }
    const auto& commands = place.command->commands;
    const auto sub =
        std::ranges::find_if(commands, [&](const auto& c) { return c.name() == word; });
    if (sub != commands.end())
      place = Place{&*sub};
    else
      ++place.positionals;
  }
  return place;
}

/// The values of an option or positional that begin with what is typed, each after `kept`.
KnownValues values_of(const OptionDescription& option, const Place& place, std::string typed,
                      std::string kept) {
  if (option.kind != Kind::kText) return {};
  if (option.separator != '\0')
    if (const std::size_t last = typed.rfind(option.separator); last != typed.npos) {
      kept += typed.substr(0, last + 1);
      typed.erase(0, last + 1);
    }
  KnownValues all;
  if (!option.choices.empty())
    for (const std::string& choice : option.choices) all.values.push_back({choice});
  else if (option.value == "NAME=VALUE" || option.value == "SET")
    all.values = known_parameters(place.variants);
  else
    all = known_values(option.value);
  std::erase_if(all.values, [&](const KnownValue& one) { return !one.value.starts_with(typed); });
  for (KnownValue& one : all.values) one.value.insert(0, kept);
  return all;
}

KnownValues option_names(const Place& place, const std::string& typed) {
  KnownValues all;
  for (const OptionDescription& option : place.command->options) {
    const std::string& name = option.names.back();
    const bool again = option.repeated || std::ranges::find(place.given, name) == place.given.end();
    if (!option.positional && again && name.starts_with(typed))
      all.values.push_back({name, option.help});
  }
  return all;
}

KnownValues command_names(const CommandDescription& command, const std::string& typed) {
  KnownValues all;
  for (const CommandDescription& one : command.commands)
    if (one.name().starts_with(typed)) all.values.push_back({one.name(), one.summary});
  return all;
}

KnownValues positional_values(const Place& place, const std::string& typed) {
  std::vector<const OptionDescription*> positionals;
  for (const OptionDescription& option : place.command->options)
    if (option.positional) positionals.push_back(&option);
  if (positionals.empty()) return {};
  const std::size_t next = std::min(place.positionals, positionals.size() - 1);
  if (next < place.positionals && !positionals[next]->repeated) return {};
  return values_of(*positionals[next], place, typed, "");
}

constexpr const char* kBash =
    R"(# Completion of tessera in bash. The program itself says what may stand next.
_tessera() {
  local line=${COMP_LINE:0:COMP_POINT} breaks=${COMP_WORDBREAKS//[[:space:]@]/} found= files=
  local -a words
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local current=${words[-1]}
  # readline replaces only what follows the last of its word breaks, such as =; an @ it keeps.
  local kept=${current%"${current##*["$breaks"]}"}
  COMPREPLY=()
  while IFS= read -r found; do
    found=${found%%$'\t'*}
    if [[ $found == :files ]]; then files=1; else COMPREPLY+=("${found#"$kept"}"); fi
  done < <("${words[0]/#\~/$HOME}" complete words -- "${words[@]:1}" 2>/dev/null)
  if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
  if [[ $files ]]; then
    compopt -o filenames
    while IFS= read -r found; do COMPREPLY+=("$found"); done \
      < <(compgen -f -- "${current#"$kept"}")
  fi
}
complete -F _tessera tessera
)";

constexpr const char* kZsh = R"(#compdef tessera
# Completion of tessera in zsh. The program itself says what may stand next.
_tessera() {
  local line value files
  local -a whole open
  for line in "${(@f)$("${(Q)words[1]}" complete words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -z $line ]] && continue
    if [[ $line == :files ]]; then files=1; continue; fi
    value=${${line%%$'\t'*}//:/\\:}
    if [[ $value == *= ]]; then open+=("$value:${line#*$'\t'}"); else whole+=("$value:${line#*$'\t'}"); fi
  done
  (( $#whole )) && _describe -t values value whole
  (( $#open )) && _describe -t values value open -S ''
  [[ -n $files ]] && _files
  return 0
}
if [[ $funcstack[1] == _tessera ]]; then _tessera "$@"; else compdef _tessera tessera; fi
)";

constexpr const char* kFish =
    R"(# Completion of tessera in fish. The program itself says what may stand next.
function __tessera_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] complete words -- $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c tessera -f -a '(__tessera_complete)'
)";

}  // namespace

KnownValues completions(const CommandDescription& program, const std::vector<std::string>& words) {
  const std::string typed = words.empty() ? "" : words.back();
  const Place place = read_words(program, words);
  if (place.awaits != nullptr) return values_of(*place.awaits, place, typed, "");
  if (typed.starts_with('-') && !place.options_end) {
    const std::size_t equals = typed.find('=');
    if (equals == typed.npos) return option_names(place, typed);
    const OptionDescription* option = find_option(*place.command, typed.substr(0, equals));
    if (option == nullptr) return {};
    return values_of(*option, place, typed.substr(equals + 1), typed.substr(0, equals + 1));
  }
  if (!place.command->commands.empty()) return command_names(*place.command, typed);
  return positional_values(place, typed);
}

std::string completion_script(std::string_view shell) {
  static const std::map<std::string_view, const char*> scripts{
      {"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}};
  return scripts.at(shell);
}

}  // namespace tessera
