"""The help of `umiak machines` and its reference page, from the tables of flags and keys. A decider."""

from __future__ import annotations

from umiak.cli.machines.flags import FLAGS
from umiak.cli.texts.help_text import WIDTH, default, entry, spelling, tail, wrapped
from umiak.submit.machines.settings import TABLE

USAGE = (
    "umiak machines up NAME [flags]",
    "umiak machines list [NAME] [flags]",
    "umiak machines image NAME --image_name IMAGE [flags]",
    "umiak machines down NAME [flags]",
)
ABOUT = (
    "Rent machines of a cloud as [machines.NAME] of umiak.toml describes them, run jobs on them with `umiak submit --on NAME`, and "
    "release them. Baidu BCC is built in; for Alibaba and Huawei, Terraform's JSON is printed."
)
EXAMPLES = (
    ("umiak machines up gpu", "shows the price, asks, creates, waits for ssh"),
    ("umiak machines up gpu --count 4", "two more, if there are two"),
    ("umiak submit --on gpu --nnodes 4 -- train.py", "a job on them"),
    ("umiak machines list", "what runs, its price so far, its release"),
    ("umiak machines image gpu --image_name ctr_1", "an image of the first one"),
    ("umiak machines down gpu", "releases all, with their disks"),
    ("umiak machines up ali --render terraform > main.tf.json", "for terraform apply"),
)
ENDING = "Exit status: 0 if it worked, 2 for a wrong request or no `yes`, 3 if the cloud refused, did not answer, or was too slow."

PAGE = """\
<!-- Made by `python docs/generate.py` from umiak.cli.machines. Change these, not this file. -->

# `umiak machines`

```
{usage}
```

{about}

```sh
{examples}
```

| flag | default | meaning |
|---|---|---|
{flags}

{ending}

The whole path, from creating machines to releasing them: [Rent machines](../how-to/rent-machines.md).

## `[machines.NAME]` in umiak.toml

| key | default | meaning |
|---|---|---|
{keys}

Keys of the account come from the environment alone: `BCE_ACCESS_KEY_ID`, `BCE_SECRET_ACCESS_KEY` and, for temporary keys, `BCE_SESSION_TOKEN`.

## JSON

`up`, `list` and `down` print one object per machine: `id`, `name`, `machines`, `owner`, `run`, `state`, `internal`, `public`, `spec`, `zone`, `created_s`, `release_s`
(seconds since 1970, or `null`), `hourly`, `so_far` and `currency`; `down` prints `id` and `released`. `image` prints `id`, `name` and `state`.
"""


def text() -> str:
    """The help."""
    lines = [f"{'usage:' if number == 0 else '      '} {usage}" for number, usage in enumerate(USAGE)]
    lines += ["", *wrapped(ABOUT, WIDTH), "", "Examples:"]
    lines += [f"  {example:<56}# {meaning}" for example, meaning in EXAMPLES]
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        lines += ["", f"{group}:"]
        for flag in FLAGS:
            if flag.group == group:
                lines += entry(spelling(flag), flag.help, tail(flag))
    return "\n".join([*lines, "", *wrapped(ENDING, WIDTH)]) + "\n"


def reference() -> str:
    """docs/reference/machines.md."""
    flags = (f"| {_code(spelling(flag).strip())} | {_code(default(flag)) or '-'} | {flag.help} |" for flag in FLAGS)
    keys = []
    for key in TABLE:
        known = _code(str(key.default)) if key.default is not None else key.default_said or "-"
        words = f" {', '.join(_code(each) for each in key.choices)}." if key.choices else ""
        keys.append(f"| `{key.name}` | {'required' if key.required else known} | {key.meaning}{words} |")
    parts = {
        "{usage}": "\n".join(USAGE),
        "{about}": ABOUT.replace("[machines.NAME]", "`[machines.NAME]`"),
        "{examples}": "\n".join(f"{example:<56}# {meaning}" for example, meaning in EXAMPLES),
        "{flags}": "\n".join(flags),
        "{ending}": ENDING,
        "{keys}": "\n".join(keys),
    }
    page = PAGE
    for name, made in parts.items():
        page = page.replace(name, made)
    return page


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`" if text else ""
