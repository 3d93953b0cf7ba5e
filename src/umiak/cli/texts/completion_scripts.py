"""Completion scripts for bash, zsh and fish, made from the tables of commands and flags. A decider.

All three do the same: commands; then the flags of a command and the words that a flag's value can be; and behind the
program that `umiak launch` starts, files. Runs are completed by the names of their records, and places by what configs
say, both by the shell itself. Flags of other launchers are understood, so that their values are not taken for the
program, and not offered.
"""

from __future__ import annotations

from umiak.cli.commands import COMMANDS, Command
from umiak.cli.texts.help_text import page_of
from umiak.launch.command_line.paddle_flags import OLDER, REFUSED
from umiak.schema.flags import Flag, FlagKind, FlagOrigin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HELP = ("--help", "Print help")
VERSION = ("--version", "Print the version")
FILES, MODELS, PLACES = "FILES", "MODELS", "PLACES"
"""In place of words: whatever files there are; models of the zoo, and files;
places of the nearest umiak.toml and of the user's own.
"""
_NAMES_OF_FILES = ("DIR", "FILE", "CONFIG")


def flags(command: Command) -> tuple[Flag, ...]:
    """All flags of a command."""
    return page_of(command.name).flags


def offered(command: Command) -> list[tuple[str, str]]:
    """The flags that are offered, as they are typed, with the beginning of their help."""
    offers = [
        (f"--{name}", _short(flag.help))
        for flag in flags(command)
        if flag.group not in (OLDER, REFUSED) and flag.origin in (FlagOrigin.PADDLE, FlagOrigin.UMIAK)
        for name in (flag.name, *flag.aliases)
    ]
    module = [("-m", "Run a Python module")] if command.starts_program else []
    return [*offers, *module, HELP, *([VERSION] if command.has_version else [])]


def with_value(command: Command) -> list[str]:
    """Every flag, in each of its names, behind which a value follows."""
    return [name for flag in flags(command) if flag.takes_value for name in _typed(flag)]


def values(command: Command) -> list[tuple[list[str], str]]:
    """Flags whose values can be completed: their names, and the words, or FILES."""
    return [(_typed(flag), words) for flag in flags(command) if (words := _words(flag))]


def _typed(flag: Flag) -> list[str]:
    return [*(f"--{name}" for name in flag.spellings), *([f"-{flag.letter}"] if flag.letter else [])]


def _words(flag: Flag) -> str:
    if flag.kind is FlagKind.TRUTH:
        return "True False"
    if flag.choices or flag.words:
        return " ".join((*flag.choices, *flag.words))
    if flag.letter == "m":
        return MODELS
    if flag.metavar == "PLACE":
        return PLACES
    if flag.metavar in _NAMES_OF_FILES:
        return FILES
    parts = flag.metavar.split("|")
    return " ".join(parts) if len(parts) > 1 and all(part == part.lower() and part.isalnum() for part in parts) else ""


def _short(text: str) -> str:
    """The first sentence."""
    return text.partition(". ")[0].partition("; ")[0].rstrip("., ")


# ---- bash


def bash(models: Sequence[str] = ()) -> str:
    """For bash 4 and newer, with and without the package bash-completion."""
    return BASH.format(
        commands=" ".join((*COMMANDS, "--help", "--version")),
        words=_cases("        {}) words={} ;;", ((name, each.words) for name, each in COMMANDS.items() if each.words)),
        flags=_cases("        {}) flags={} ;;", ((name, _names(each)) for name, each in COMMANDS.items())),
        **_tables(models),
    )


def _names(command: Command) -> list[str]:
    return [name for name, _ in offered(command)]


def _cases(line: str, rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    return "\n".join(line.format(name, _quoted(" ".join(words))) for name, words in rows)


def _tables(models: Sequence[str]) -> dict[str, str]:
    """What bash and zsh are told in the same words."""
    takes, known = [], []
    for name, command in COMMANDS.items():
        if with_value(command):
            takes.append(f"        {'|'.join(_quoted(f'{name} {flag}') for flag in with_value(command))}) return 0 ;;")
        for spelled, words in values(command):
            pattern = "|".join(_quoted(f"{name} {flag}") for flag in spelled)
            known.append(f"        {pattern}) candidates={_quoted(words)} ;;")
    programs = "|".join(name for name, command in COMMANDS.items() if command.starts_program)
    helpers = HELPERS.format(models=_quoted(" ".join(models)), takes="\n".join(takes))
    return {"helpers": helpers, "known": "\n".join(known), "programs": programs, "runs": _with_runs()}


def _with_runs() -> str:
    """Commands whose argument is a run."""
    return "|".join(name for name, command in COMMANDS.items() if command.takes_run)


def _with_files() -> str:
    """Commands whose arguments are files, for zsh."""
    return "|".join(name for name, command in COMMANDS.items() if command.starts_program or command.takes_file)


def _quoted(text: str) -> str:
    """For bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


HELPERS = """\
_umiak_models={models}

# The runs of this user: COMMAND WORD; handles if the word begins as one, and for cancel only runs that are not known to be over
_umiak_runs() {{
    local kept="${{XDG_STATE_HOME:-$HOME/.local/state}}/umiak/runs" wanted
    [ -d "$kept" ] || return 0
    if [ "$1" = cancel ] || [ "$1" = exec ]; then
        (cd "$kept" && find . -maxdepth 1 -name '*.json' -exec grep -L '"status": {{' {{}} + 2> /dev/null)
    else
        (cd "$kept" && find . -maxdepth 1 -name '*.json')
    fi | if [[ $2 == *://* ]]; then
        (cd "$kept" && while read -r wanted; do sed -nE 's/.*"handle": "([A-Za-z0-9_.:\\/-]+)".*/\\1/p' "$wanted"; echo; done)
    else
        sed -nE 's/^\\.\\/([A-Za-z0-9_-][A-Za-z0-9_.-]*)\\.json$/\\1/p'
    fi
}}

# The places of the nearest umiak.toml and of the user's own
_umiak_places() {{
    local at="$PWD"
    while [ -n "$at" ] && [ ! -f "$at/umiak.toml" ]; do at="${{at%/*}}"; done
    echo local
    sed -nE 's/^[[:space:]]*\\[[[:space:]]*place[[:space:]]*\\.[[:space:]]*"?([A-Za-z0-9_-]+)"?.*\\].*/\\1/p' \\
        "$at/umiak.toml" "${{XDG_CONFIG_HOME:-$HOME/.config}}/umiak/config.toml" 2> /dev/null | sort -u
}}

# Whether a value follows: COMMAND FLAG
_umiak_takes_value() {{
    case "$1 $2" in
{takes}
    esac
    return 1
}}
"""
"""For bash and zsh."""

BASH = """\
# Completion of umiak for bash, made by `umiak completion bash`.

{helpers}
_umiak() {{
    local line="${{COMP_LINE:0:COMP_POINT}}" command word cur flag="" before="" words="" flags="" candidates="" at=2 i
    local -a typed
    # bash cuts words at = and : as well, so the line is cut at blanks here.
    read -ra typed <<< "$line"
    if [[ $line == *[[:space:]] ]]; then typed+=(""); fi
    local last=$((${{#typed[@]}} - 1))
    cur="${{typed[last]}}"
    COMPREPLY=()
    if ((last < 2)); then
        COMPREPLY=($(compgen -W '{commands}' -- "$cur"))
        return
    fi
    command="${{typed[1]}}"
    case "$command" in
{words}
    esac
    if [[ -n $words ]]; then
        at=3
        if ((last == 2)); then
            COMPREPLY=($(compgen -W "$words --help" -- "$cur"))
            return
        fi
    fi
    for ((i = at; i < last; i++)); do
        word="${{typed[i]}}"
        if [[ -n $flag ]]; then flag=""; continue; fi
        case "$word" in
            --) return ;;
            -*=*) ;;
            -*)
                if [[ $word == --* ]]; then word="${{word:2}}"; word="--${{word//-/_}}"; fi
                if _umiak_takes_value "$command" "$word"; then flag="$word"; fi ;;
            [Tt]rue|[Ff]alse) ;;
            *) case "$command" in {programs}) return ;; esac ;;  # from here on it is the program's line
        esac
    done
    if [[ -z $flag && $cur == --*=* ]]; then
        flag="${{cur%%=*}}"; before="$flag="; cur="${{cur#*=}}"
        flag="${{flag:2}}"; flag="--${{flag//-/_}}"
        if [[ $COMP_WORDBREAKS == *=* ]]; then before=""; fi
    fi
    if [[ -n $flag ]]; then
        case "$command $flag" in
{known}
        esac
        case "$candidates" in
            FILES) return ;;
            MODELS)
                mapfile -t COMPREPLY < <(compgen -P "$before" -W "$_umiak_models" -- "$cur"; compgen -P "$before" -f -- "$cur")
                compopt -o filenames 2> /dev/null
                return ;;
            PLACES) candidates="$(_umiak_places)" ;;
        esac
        compopt +o default +o bashdefault 2> /dev/null
        COMPREPLY=($(compgen -P "$before" -W "$candidates" -- "$cur"))
        return
    fi
    if [[ $cur == -* ]]; then
        case "$command" in
{flags}
        esac
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
        return
    fi
    case "$command" in
        {runs})
            compopt +o default +o bashdefault 2> /dev/null
            COMPREPLY=($(compgen -W "$(_umiak_runs "$command" "$cur")" -- "$cur"))
            # What is before a colon is another word for bash.
            if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then COMPREPLY=("${{COMPREPLY[@]#"${{cur%:*}}:"}}"); fi ;;
    esac
}}

complete -o bashdefault -o default -F _umiak umiak
"""


# ---- zsh


def zsh(models: Sequence[str] = ()) -> str:
    """For zsh 5: a file `_umiak` in a directory of $fpath, or sourced."""
    flag_cases = []
    for name, command in COMMANDS.items():
        flag_cases += [
            f"        {name}) flags=(",
            *(f"            {each}" for each in _described(offered(command))),
            "        ) ;;",
        ]
    commands = [(name, command.summary) for name, command in COMMANDS.items()]
    return ZSH.format(
        commands="\n".join(f"            {each}" for each in _described([*commands, HELP, VERSION])),
        words="\n".join(
            f"        {name}) choices=({' '.join(each.words)}) ;;" for name, each in COMMANDS.items() if each.words
        ),
        flags="\n".join(flag_cases),
        files=_with_files(),
        **_tables(models),
    )


def _described(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [_quoted(f"{name}:{text}") for name, text in rows]


ZSH = """\
#compdef umiak
# Completion of umiak for zsh, made by `umiak completion zsh`.

{helpers}
_umiak() {{
    local command word flag='' candidates='' at=3 i
    local -a commands flags choices
    if (( CURRENT == 2 )); then
        commands=(
{commands}
        )
        _describe -t commands 'command' commands
        return
    fi
    command="${{words[2]}}"
    case "$command" in
{words}
    esac
    if (( ${{#choices}} )); then
        at=4
        if (( CURRENT == 3 )); then
            compadd -- "${{choices[@]}}" --help
            return
        fi
    fi
    for (( i = at; i < CURRENT; i++ )); do
        word="${{words[i]}}"
        if [[ -n "$flag" ]]; then flag=''; continue; fi
        case "$word" in
            --) _files; return ;;
            -*=*) ;;
            -*)
                if [[ "$word" == --* ]]; then word="${{word#--}}"; word="--${{word//-/_}}"; fi
                if _umiak_takes_value "$command" "$word"; then flag="$word"; fi ;;
            [Tt]rue|[Ff]alse) ;;
            *) case "$command" in {programs}) _files; return ;; esac ;;  # from here on it is the program's line
        esac
    done
    word="${{words[CURRENT]}}"
    if [[ -z "$flag" && "$word" == --*=* ]]; then
        flag="${{word%%=*}}"; flag="${{flag#--}}"; flag="--${{flag//-/_}}"
        compset -P '*='
    fi
    if [[ -n "$flag" ]]; then
        case "$command $flag" in
{known}
        esac
        if [[ "$candidates" == FILES ]]; then
            _files
        elif [[ "$candidates" == MODELS ]]; then
            choices=(${{=_umiak_models}})
            compadd -- "${{choices[@]}}"
            _files
        elif [[ "$candidates" == PLACES ]]; then
            choices=(${{(f)"$(_umiak_places)"}})
            compadd -- "${{choices[@]}}"
        elif [[ -n "$candidates" ]]; then
            choices=(${{=candidates}})
            compadd -- "${{choices[@]}}"
        fi
        return
    fi
    if [[ "$word" == -* ]]; then
        case "$command" in
{flags}
        esac
        _describe -o -t flags 'flag' flags
        return
    fi
    case "$command" in
        {files}) _files ;;
        {runs})
            choices=(${{(f)"$(_umiak_runs "$command" "$word")"}})
            compadd -- "${{choices[@]}}" ;;
    esac
}}

if [[ "${{funcstack[1]}}" == _umiak ]]; then
    _umiak "$@"
else
    compdef _umiak umiak
fi
"""


# ---- fish


def fish(models: Sequence[str] = ()) -> str:
    """For fish 3 and newer."""
    lines = []
    for name, command in COMMANDS.items():
        if command.starts_program:
            lines.append(f"set -g __umiak_valued_{name} {' '.join(with_value(command))}")
    for name, command in COMMANDS.items():
        lines.append(f"complete -c umiak -n __umiak_no_command -f -a {name} -d {_fish(command.summary)}")
    lines += [
        f"complete -c umiak -n __umiak_no_command -l {name[2:]} -d {_fish(text)}" for name, text in (HELP, VERSION)
    ]
    for name, command in COMMANDS.items():
        here = f"complete -c umiak -n '__umiak_in {name}'"
        lines.append("")
        if command.words:
            lines.append(f"complete -c umiak -n '__umiak_first {name}' -a {_fish(' '.join(command.words))}")
        if not (command.starts_program or command.takes_file):
            lines.append(f"{here} -f")
        if command.takes_run:
            lines.append(f"{here} -f -a '(__umiak_runs {name})'")
        words = {flag: each for spelled, each in values(command) for flag in spelled}
        letters = {f"--{flag.name}": f" -s {flag.letter}" for flag in flags(command) if flag.letter}
        takes = {*with_value(command)}
        for flag, text in offered(command):
            spelled = f"-l {flag[2:]}{letters.get(flag, '')}" if flag.startswith("--") else f"-s {flag[1:]}"
            value = _fish_value(words.get(flag, ""), models, takes=flag in takes)
            lines.append(f"{here} {spelled}{value} -d {_fish(text)}")
    return FISH.format(lines="\n".join(lines))


def _fish_value(words: str, models: Sequence[str], *, takes: bool) -> str:
    if words == FILES:
        return " -r -F"
    if words == MODELS:
        return f" -r -F -a {_fish(' '.join(models))}"
    if words == PLACES:
        return " -x -a '(__umiak_places)'"
    if words and takes:
        return f" -x -a {_fish(words)}"
    return " -x" if takes else ""


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


FISH = """\
# Completion of umiak for fish, made by `umiak completion fish`.

# The runs of this user; handles if the word begins as one, and for cancel only runs that are not known to be over
function __umiak_runs
    set -l state $XDG_STATE_HOME
    test -n "$state"; or set state $HOME/.local/state
    set -l kept $state/umiak/runs/*.json
    test (count $kept) -gt 0; or return 0
    if contains -- $argv[1] cancel exec
        set kept (grep -L '"status": {{' $kept 2> /dev/null)
        test (count $kept) -gt 0; or return 0
    end
    if string match -q '*://*' -- (commandline -ct)
        sed -nE 's/.*"handle": "([A-Za-z0-9_.:\\/-]+)".*/\\1/p' $kept
    else
        string replace -rf '^.*/([A-Za-z0-9_-][A-Za-z0-9_.-]*)\\.json$' '$1' -- $kept
    end
end

# The places of the nearest umiak.toml and of the user's own
function __umiak_places
    set -l at $PWD
    while test -n "$at"; and not test -f $at/umiak.toml
        set at (string replace -r '/[^/]*$' '' -- $at)
    end
    set -l config $XDG_CONFIG_HOME
    test -n "$config"; or set config $HOME/.config
    echo local
    sed -nE 's/^[[:space:]]*\\[[[:space:]]*place[[:space:]]*\\.[[:space:]]*"?([A-Za-z0-9_-]+)"?.*\\].*/\\1/p' $at/umiak.toml $config/umiak/config.toml 2> /dev/null | sort -u
end

function __umiak_no_command
    test (count (commandline -opc)) -eq 1
end

# Whether the word behind this command is typed now
function __umiak_first
    set -l typed (commandline -opc)
    test (count $typed) -eq 2; and test $typed[2] = $argv[1]
end

# Whether flags of this command are typed now; those of a command that starts a program end at its name
function __umiak_in
    set -l typed (commandline -opc)
    test (count $typed) -ge 2; and test $typed[2] = $argv[1]; or return 1
    set -l valued __umiak_valued_$argv[1]
    set -q $valued; or return 0
    set -l skip 0
    set -e typed[1..2]
    for word in $typed
        if test $skip -eq 1
            set skip 0
            continue
        end
        switch $word
            case --
                return 1
            case '-*=*' true false True False
            case '-*'
                if contains -- $word $$valued; or contains -- --(string replace -a -- - _ (string sub -s 3 -- $word)) $$valued
                    set skip 1
                end
            case '*'
                return 1 # from here on it is the program's line
        end
    end
    return 0
end

{lines}
"""

SHELLS: dict[str, Callable[[Sequence[str]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
