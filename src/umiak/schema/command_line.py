"""Reads a command line with a table of flags: words and environment in, settings and problems out. A decider.

    parse(FLAGS, ["--nnodes", "2", "train.py", "--lr", "0.1"], {"PADDLE_RANK": "1"})
    of_values(FLAGS, {"nnodes": 2}, {"PADDLE_RANK": "1"}, program=["train.py", "--lr", "0.1"])

The rules are few. ``--flag value`` and ``--flag=value``; hyphens and underscores are the same; a flag that is true or
false may stand alone (``--sort_ip``) or have its word (``--sort_ip True``). The first word that is no flag is the
program, and everything after it belongs to the program; ``-m`` says that it is a module, and ``--`` ends the flags. The
command line beats the environment. Nothing may be abbreviated: a new flag would then change what an old script means.

Why not ``argparse``: importing it costs more than the whole start of `umiak launch`, it stops at the first
mistake, and it can't say where a value came from.
"""

from __future__ import annotations

from umiak.core.names import is_digits
from umiak.core.nearest import nearest
from umiak.core.problem import Problem
from umiak.core.shown import without_password
from umiak.schema.flags import Flag, FlagKind, FlagSource, Parsed, Setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.schema.flags import Value

TRUE_WORDS = ("true", "t", "yes", "y", "on", "1")
FALSE_WORDS = ("false", "f", "no", "n", "off", "0")
MOST_BYTES = 1 << 62
LONGEST_NUMBER = 30
"""In characters; a longer one is a mistake, and Python would take seconds over some."""
UNITS_S = {"s": 1, "m": 60, "h": 3600}
UNITS_BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse(
    flags: Sequence[Flag],
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    command: str = "umiak",
    starts_program: bool = True,
    arguments: int = 0,
) -> Parsed:
    """Read the words of a command line and the variables that stand for flags. ``command`` is named in hints.

    A command that ``starts_program`` ends its flags at the program; one that does not has flags only, also of one
    letter, and up to so many ``arguments`` anywhere between them. Where arguments are taken, what follows ``--`` is the
    program.
    """
    words = _Words(flags, argv, command, starts_program=starts_program, arguments=arguments)
    words.read()
    problems = words.problems
    notes: list[str] = []
    settings = _settings(flags, words.said, environ, problems, notes)
    return Parsed(
        settings=settings,
        program=words.program,
        arguments=tuple(words.arguments),
        is_module=words.is_module,
        argv=tuple(argv),
        texts={name: tuple(texts) for name, texts in words.texts.items()},
        wants_help=words.wants_help,
        wants_version=words.wants_version,
        problems=tuple(problems),
        notes=tuple(notes),
    )


def of_values(
    flags: Sequence[Flag],
    values: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    program: Sequence[str] = (),
    is_module: bool = False,
) -> Parsed:
    """What a command line with these flags would say, by the names of the flags.
    Values are checked as their texts are.
    """
    by_name = {flag.name: flag for flag in flags}
    texts = {name: _as_text(by_name[name], given) for name, given in values.items()}
    command = {
        name: Setting(flag=by_name[name], value=None, source=FlagSource.COMMAND, said_as=f"--{name}", text=text)
        for name, text in texts.items()
    }
    problems: list[Problem] = []
    notes: list[str] = []
    settings = _settings(flags, command, environ, problems, notes)
    argv = (*(f"--{name}={text}" for name, text in texts.items()), "-m" if is_module else "--", *program)
    return Parsed(
        settings=settings,
        program=tuple(program),
        is_module=is_module,
        argv=argv,
        problems=tuple(problems),
        notes=tuple(notes),
    )


def convert(flag: Flag, text: str) -> Value:
    """The value that a text stands for. ValueError says what is wrong with the text, without repeating it."""
    if flag.kind is FlagKind.TEXT:
        return text.strip()
    if flag.kind in (FlagKind.TRUTH, FlagKind.SWITCH):
        return _truth(text)
    if flag.kind is FlagKind.CHOICE:
        return _choice(flag, text)
    if text.strip().lower() in flag.words:
        return text.strip().lower()
    number: int | float
    if flag.kind is FlagKind.NUMBER:
        number = _whole(text)
    elif flag.kind is FlagKind.SECONDS:
        number = _seconds(text)
    else:
        number = _bytes(text)
    if flag.least is not None and number < flag.least:
        raise ValueError(f"less than {flag.least:g}")
    most = MOST_BYTES if flag.kind is FlagKind.SIZE else flag.most
    if number > most:
        raise ValueError(f"more than {most:.15g}")
    return number


class _Words:
    """One walk over the words of a command line."""

    def __init__(
        self, flags: Sequence[Flag], argv: Sequence[str], command: str, *, starts_program: bool, arguments: int
    ) -> None:
        self.argv = tuple(argv)
        self.most_arguments = arguments
        self.arguments: list[str] = []
        self.command = command
        self.starts_program = starts_program
        self.known = {spelling: flag for flag in flags for spelling in flag.spellings}
        self.letters = {f"-{flag.letter}": flag for flag in flags if flag.letter}
        self.texts: dict[str, list[str]] = {}
        self.elsewhere = {name: flag.name for flag in flags for name in flag.elsewhere}
        self.said: dict[str, Setting] = {}  # What is said twice counts as it was said last.
        self.problems: list[Problem] = []
        self.program: tuple[str, ...] = ()
        self.is_module = False
        self.wants_help = False
        self.wants_version = False

    def read(self) -> None:
        position = 0
        while position < len(self.argv):
            word = self.argv[position]
            if not self.starts_program and (word == "-" or not word.startswith("-")):
                self._argument(word)
            elif word == "--" and (self.starts_program or self.most_arguments):
                self.program = self.argv[position + 1 :]
                return
            elif word == "-m" and self.starts_program:
                self.is_module = True  # The next word that is no flag is the module; torchrun allows flags before it.
            elif word == "-" or not word.startswith("-"):
                self.program = self.argv[position:]
                return
            elif word in ("-h", "--help"):
                self.wants_help = True
            elif word == "--version":
                self.wants_version = True
            else:
                position = self._flag(word, position)
            position += 1

    def _flag(self, word: str, position: int) -> int:
        """Take in a flag; the answer is the position of the last word that belongs to it."""
        typed, equals, text = word.partition("=")
        name = typed[2:].replace("-", "_")
        flag = self.known.get(name) if typed.startswith("--") else self.letters.get(typed)
        if flag is None and not typed.startswith("--") and typed[:2] in self.letters:
            typed, equals, text = typed[:2], "=", word[2:]  # -r3
            flag = self.letters[typed]
        if flag is None:
            return self._unknown(typed, position, has_value=bool(equals))
        found: Value = None
        if not equals:
            following = self.argv[position + 1] if position + 1 < len(self.argv) else None
            if _belongs(following, flag):
                text, position = following or "", position + 1
            elif flag.takes_value:
                self._problem_no_value(flag, typed)
                return position
            else:
                found = True
                if flag.kind is FlagKind.TRUTH and following is not None and self._is_bare(following):
                    self._problem_neither(typed, following)
                    position += 1
        self.said[flag.name] = Setting(flag=flag, value=found, source=FlagSource.COMMAND, said_as=typed, text=text)
        if flag.many:
            texts = self.texts.setdefault(flag.name, [])
            texts.append(text)
            while position + 1 < len(self.argv) and not equals and not _looks_like_flag(self.argv[position + 1]):
                position += 1
                texts.append(self.argv[position])
        return position

    def _argument(self, word: str) -> None:
        if len(self.arguments) < self.most_arguments:
            self.arguments.append(word)
            return
        letter = next(iter(self.letters), "") if not self.most_arguments else ""
        meant = f"did you mean `{self.command} {letter} {word}`? " if letter else ""
        hint = f"{meant}`{self.command} --help` lists all flags"
        self.problems.append(Problem(code="UM-CLI-005", what=f"unexpected argument: {word}", hint=hint))

    def _is_bare(self, word: str) -> bool:
        """Whether this word can be a mistake for true or false as well as a program, so that nobody should guess."""
        return self.starts_program and word not in ("", "-") and not _looks_like_flag(word) and not {".", "/"} & {*word}

    def _problem_neither(self, typed: str, word: str) -> None:
        hint = f"write `{typed} True` or `{typed} False`; if {word} is the program, `{typed} True {word}`"
        self.problems.append(Problem(code="UM-CLI-003", what=f"not a boolean: {typed} {word}", hint=hint))

    def _problem_no_value(self, flag: Flag, typed: str) -> None:
        hint = f"write `{typed} {flag.metavar}`, or `{typed}={flag.metavar}` if the value begins with a dash"
        self.problems.append(Problem(code="UM-CLI-002", what=f"missing value: {typed}", hint=hint))

    def _unknown(self, typed: str, position: int, *, has_value: bool) -> int:
        name = typed.lstrip("-").replace("-", "_")
        meant = self.elsewhere.get(name) or nearest(name, self.known)
        hint = f"`{self.command} --help` lists all flags"
        if meant:
            hint = f"did you mean `--{meant}`? {hint}"
        self.problems.append(Problem(code="UM-CLI-001", what=f"unknown flag: {typed}", hint=hint))
        # Guess where the next flag begins, so that the mistakes behind this one are found as well.
        after = self.argv[position + 1 : position + 3]
        if has_value or not after or _looks_like_flag(after[0]) or after[0].endswith(".py"):
            return position
        takes_value = self.known[meant].takes_value if meant else len(after) == 2 and after[1].startswith("--")
        return position + 1 if takes_value else position


def _belongs(following: str | None, flag: Flag) -> bool:
    """Whether the word after a flag is its value."""
    if following is None:
        return False
    if flag.takes_value:
        return not _looks_like_flag(following)
    return flag.kind is FlagKind.TRUTH and following.lower() in TRUE_WORDS + FALSE_WORDS


def _looks_like_flag(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not (is_digits(word[1]) or word[1] == ".")


def _settings(
    flags: Sequence[Flag],
    command: Mapping[str, Setting],
    environ: Mapping[str, str],
    problems: list[Problem],
    notes: list[str],
) -> dict[str, Setting]:
    """Every flag as the command says it, or else the environment."""
    settings = {}
    for flag in flags:
        heard = [command[flag.name]] if flag.name in command else []
        settings[flag.name] = _chosen(flag, [*heard, *_from_environment(flag, environ)], problems, notes)
    return settings


def _as_text(flag: Flag, given: object) -> str:
    if isinstance(given, (list, tuple, range)):
        return ",".join(map(str, given))
    if flag.kind is FlagKind.CHOICE and isinstance(given, bool):
        return str(int(given))
    return str(given)


def _from_environment(flag: Flag, environ: Mapping[str, str]) -> list[Setting]:
    return [
        Setting(flag=flag, value=None, source=FlagSource.ENVIRONMENT, said_as=name, text=environ[name])
        for name in flag.env
        if environ.get(name)  # An empty variable is how a shell says "not set".
    ]


def _chosen(flag: Flag, heard: list[Setting], problems: list[Problem], notes: list[str]) -> Setting:
    """The first of several settings for one flag, converted; the others are mentioned if they disagree."""
    if not heard:
        return Setting(flag=flag, value=flag.default)
    first, others = heard[0], heard[1:]
    try:
        converted = _converted(first)
    except ValueError as error:
        problems.append(_bad_value(first, str(error)))
        return Setting(flag=flag, value=flag.default)
    chosen = Setting(flag=flag, value=converted, source=first.source, said_as=first.said_as, text=first.text)
    for other in others:
        try:
            agrees = _converted(other) == converted
        except ValueError:
            agrees = False
        if not agrees:
            notes.append(
                f"{chosen.spoken} is used; the environment says {other.said_as}={without_password(other.text)}"
            )
    return chosen


def _converted(setting: Setting) -> Value:
    return convert(setting.flag, setting.text) if setting.value is None else setting.value


def _bad_value(setting: Setting, reason: str) -> Problem:
    flag = setting.flag
    if flag.kind is FlagKind.CHOICE:
        meant = nearest(setting.text.strip().lower(), (choice.lower() for choice in flag.choices))
        hint = f"it is one of {', '.join(flag.choices)}"
        if meant:
            hint = f"did you mean `{meant}`? {hint}"
    elif flag.least is None or flag.kind is FlagKind.SIZE:
        hint = f"expected {flag.kind.value}"
    else:
        words = f", or one of {', '.join(flag.words)}" if flag.words else ""
        most = f" to {flag.most:.15g}" if flag.most < 1e9 else " or more"
        hint = f"expected {flag.kind.value}, {flag.least:g}{most}{words}"
    return Problem(code="UM-CLI-003", what=f"{reason}: {setting.spoken}", hint=hint)


def _truth(text: str) -> bool:
    word = text.strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise ValueError("not a boolean")


def _choice(flag: Flag, text: str) -> str:
    word = text.strip().lower()
    for choice in flag.choices:
        if choice.lower() == word:
            return choice
    for synonym, choice in flag.synonyms:
        if synonym.lower() == word:
            return choice
    raise ValueError("unknown value")


def _whole(text: str) -> int:
    digits = text.strip()
    number = digits[1:] if digits[:1] in ("+", "-") else digits
    if not is_digits(number) or len(digits) > LONGEST_NUMBER:
        raise ValueError("not an integer")
    return int(digits)


def _seconds(text: str) -> float:
    word = text.strip().lower()
    unit = UNITS_S.get(word[-1:], 0)
    return _decimal(word[:-1] if unit else word, "not a number of seconds") * (unit or 1)


def _bytes(text: str) -> int:
    word = text.strip().upper()
    for ending in ("IB", "B"):
        if word.endswith(ending):
            word = word[: -len(ending)]
            break
    unit = UNITS_BYTES.get(word[-1:], 0)
    return int(_decimal(word[:-1] if unit else word, "not a number of bytes") * (unit or 1))


def _decimal(text: str, complaint: str) -> float:
    whole, _, fraction = text.lstrip("+-").partition(".")
    # float() alone would let "nan", "inf" and "1_0" through.
    if len(text.lstrip("+-")) < len(text) - 1 or not is_digits(whole + fraction) or len(text) > LONGEST_NUMBER:
        raise ValueError(complaint)
    return float(text)
