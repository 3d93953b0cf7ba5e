"""`umiak machines`: rents machines, shows them, makes images, releases them. A program."""

from __future__ import annotations

import getpass
import sys
import time
from functools import partial

from umiak.cli.machines.flags import FLAGS
from umiak.cli.runs import asking, tables
from umiak.cli.texts import table_layout
from umiak.core.problem import Exit, Problem, UmiakError
from umiak.core.shown import one_line
from umiak.schema import command_line
from umiak.submit import configuration
from umiak.submit.backends.cloud import sdk
from umiak.submit.flow import Flow
from umiak.submit.machines import decisions, terraform
from umiak.submit.machines import settings as machine_settings
from umiak.submit.machines.flow import MachinesFlow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from umiak.cli.output import Printer
    from umiak.schema.flags import Parsed
    from umiak.schema.yaml_tree import Section
    from umiak.submit.backend import SubmitContext
    from umiak.submit.machines.decisions import UpPlan
    from umiak.submit.machines.machine import RentedMachine
    from umiak.submit.machines.settings import MachineSettings

WORDS = ("up", "list", "image", "down")
OWN_FLAGS = {"count": "up", "release_after": "up", "render": "up", "image_name": "image", "id": "image", "all": "list"}
NO_TERMINAL_HINT = "say it with --yes after you have seen the price: umiak machines up"


def main(argv: Sequence[str], environ: Mapping[str, str], printer: Printer) -> int:
    """Run `umiak machines`. The result is the exit status."""
    if not argv or argv[0] in ("-h", "--help"):
        return printer.page("machines", Exit.DONE if argv else Exit.BAD_REQUEST)
    word = argv[0]
    if word not in WORDS:
        from umiak.schema.findings import choices

        what = f"umiak machines: unknown command: {one_line(word)}"
        raise UmiakError.of("UM-CLI-004", what, hint=choices(word, WORDS))
    parsed = command_line.parse(
        FLAGS, argv[1:], environ, command=f"umiak machines {word}", starts_program=False, arguments=1
    )
    if parsed.wants_help:
        return printer.page("machines")
    _check_words(word, parsed)
    context = configuration.context(environ, tell=printer.talk)
    tables_found = configuration.load(context).machines
    if word == "list":
        return _list(context, tables_found, parsed, printer)
    settings = _settings(tables_found, parsed.arguments[0], environ)
    if parsed.text("render"):
        return _render(settings, parsed, printer)
    _only_baidu(settings)
    flow = MachinesFlow(settings, context)
    with flow.notes.held():
        return _COMMANDS[word](flow, parsed, printer)


def _check_words(word: str, parsed: Parsed) -> None:
    problems = list(parsed.problems)
    if word != "list" and not parsed.arguments:
        hint = f"`umiak machines {word} NAME`, where umiak.toml has [machines.NAME]"
        problems.append(Problem(code="UM-CLI-005", what=f"umiak machines {word}: which machines?", hint=hint))
    for name, owner in OWN_FLAGS.items():
        if parsed.said(name) and owner != word:
            what = f"--{name} is for `umiak machines {owner}`, not for {word}"
            problems.append(Problem(code="UM-MACHINES-001", what=what, hint="leave it out"))
    name = parsed.text("image_name")
    if word == "image" and not (name and len(name) <= 65 and name.replace("_", "").isalnum() and name.isascii()):
        what = f"expected a name of an image, got {one_line(name) or 'nothing'}"
        hint = "up to 65 letters, digits and _: --image_name ctr_1"
        problems.append(Problem(code="UM-MACHINES-001", what=what, hint=hint))
    UmiakError.raise_any(problems)


def _settings(found: Mapping[str, Section], name: str, environ: Mapping[str, str]) -> MachineSettings:
    section = found.get(name)
    if section is None:
        from umiak.schema.findings import choices

        known = f"{choices(name, sorted(found))}; or " if found else ""
        hint = f"{known}describe them in umiak.toml: [machines.{one_line(name)}], see {machine_settings.PAGE}"
        raise UmiakError.of("UM-MACHINES-001", f"unknown machines: {one_line(name)}", hint=hint)
    return machine_settings.read(section, name, _user(environ))


def _user(environ: Mapping[str, str]) -> str:
    user = environ.get("USER") or environ.get("LOGNAME")
    if not user:
        try:
            user = getpass.getuser()
        except (OSError, KeyError):
            user = "nobody"
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in user)[:60]


def _only_baidu(settings: MachineSettings) -> None:
    if settings.cloud != machine_settings.BAIDU:
        what = f"umiak rents machines of baidu itself; {settings.group} is of {settings.cloud}"
        hint = f"umiak machines up {settings.group} --render terraform > main.tf.json; then terraform apply, terraform destroy"
        raise UmiakError.of("UM-MACHINES-014", what, hint=hint)


def _render(settings: MachineSettings, parsed: Parsed, printer: Printer) -> int:
    if settings.cloud == machine_settings.BAIDU:
        what = f"Terraform's JSON is for alibaba and huawei; {settings.group} is of {settings.cloud}"
        raise UmiakError.of("UM-MACHINES-014", what, hint=f"leave --render out: umiak machines up {settings.group}")
    release = sdk.utc(time.time() + _release_after_s(settings, parsed))
    printer.data(terraform.render(settings, parsed.number("count") or settings.count, release))
    printer.talk(f"release: the cloud releases the machines at {release} by itself; render again to renew it")
    return Exit.DONE


def _up(flow: MachinesFlow, parsed: Parsed, printer: Printer) -> int:
    deadline = time.monotonic() + (parsed.seconds("timeout") or 0)
    settings = flow.settings
    count = parsed.number("count") or settings.count
    plan = flow.plan(count)
    _tell(plan, count, printer)
    after_s = _release_after_s(settings, parsed)
    hourly = flow.price()
    if plan.created:
        for line in decisions.price_lines(plan, settings, hourly, after_s):
            printer.talk(line)
    release_s = time.time() + after_s
    printer.talk(
        f"release: the cloud releases the machines after {tables.span(after_s)} by itself, at {sdk.utc(release_s)}"
    )
    if plan.created and not parsed.truth("yes") and not _agreed(f"create {plan.created} machines?", settings, printer):
        printer.talk("nothing was created")
        return Exit.BAD_REQUEST
    made = flow.create(plan, release_s)
    machines = flow.ready(made, count, deadline)
    if parsed.truth("json"):
        for each in machines:
            printer.data(asking.as_json(decisions.data(each, hourly, time.time())))
    else:
        printer.data(decisions.place_text(settings, machines, flow.notes.known_hosts_file))
    printer.talk(
        f"{len(machines)} machines are ready: umiak submit --on {settings.group}; release them: umiak machines down {settings.group}"
    )
    return Exit.DONE


def _release_after_s(settings: MachineSettings, parsed: Parsed) -> float:
    return parsed.seconds("release_after") or settings.release_after_s


def _tell(plan: UpPlan, count: int, printer: Printer) -> None:
    if plan.there:
        printer.talk(f"there: {len(plan.there)} of {count}: {', '.join(each.id for each in plan.there)}")
    for each in plan.repeated:
        printer.talk(f"a request for {each.count} machines was broken off; it is repeated, and counts once")
    for broken in plan.unusable:
        printer.note(f"{broken.id} can't be used: {broken.word}")
    if plan.surplus:
        printer.note(f"{plan.surplus} more than wanted; `up` releases none, `umiak machines down` releases all")


def _agreed(question: str, settings: MachineSettings, printer: Printer) -> bool:
    if not sys.stdin.isatty():
        what = f"there is no terminal to ask: {question}"
        raise UmiakError.of("UM-MACHINES-015", what, hint=f"{NO_TERMINAL_HINT} {settings.group} --yes")
    printer.err.write(f"{question} [y/N] ")
    printer.err.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _image(flow: MachinesFlow, parsed: Parsed, printer: Printer) -> int:
    deadline = time.monotonic() + (parsed.seconds("timeout") or 0)
    image = flow.image(parsed.text("image_name"), parsed.text("id"), deadline)
    if parsed.truth("json"):
        printer.data(asking.as_json({"id": image.id, "name": image.name, "state": image.word}))
    else:
        printer.data(image.id)
        printer.talk(f'to rent machines with it: image = "{image.id}" in [machines.{flow.settings.group}]')
    return Exit.DONE


def _down(flow: MachinesFlow, parsed: Parsed, printer: Printer) -> int:
    deadline = time.monotonic() + (parsed.seconds("timeout") or 0)
    machines = flow.machines()
    runs = Flow(flow.context)
    unfinished = runs.unfinished_at(flow.notes.place_file) if machines else []
    for run in unfinished:
        printer.note(f"a run is not over there: {run.handle}")
    # Without a terminal nobody is asked: the machines were named, and each hour that they run costs money.
    if machines and not parsed.truth("yes") and sys.stdin.isatty():
        printer.talk(f"to release, with their disks: {', '.join(each.id for each in machines)}")
        if not _agreed(f"release {len(machines)} machines?", flow.settings, printer):
            printer.talk("nothing was released")
            return Exit.BAD_REQUEST
    released = flow.down(deadline)
    for run in unfinished:
        runs.lose(run, f"its machines were released: umiak machines down {flow.settings.group}")
    if parsed.truth("json"):
        for each in released:
            printer.data(asking.as_json({"id": each, "released": True}))
    printer.talk(f"{len(released)} machines were released; nothing is left of {flow.settings.group}")
    return Exit.DONE


def _list(context: SubmitContext, found: Mapping[str, Section], parsed: Parsed, printer: Printer) -> int:
    names = parsed.arguments or tuple(sorted(found))
    chosen = [_settings(found, name, context.environ) for name in names]
    if parsed.arguments:
        _only_baidu(chosen[0])
    chosen = [each for each in chosen if each.cloud == machine_settings.BAIDU]
    if not chosen:
        hint = f"describe some in umiak.toml: [machines.gpu], see {machine_settings.PAGE}"
        raise UmiakError.of("UM-MACHINES-001", "no machines of baidu are described", hint=hint)
    now_s = time.time()
    shown: dict[str, tuple[RentedMachine, float | None]] = {}
    for settings in {(each.region, each.endpoint): each for each in chosen}.values():
        flow = MachinesFlow(settings, context)
        group = parsed.arguments[0] if parsed.arguments else None
        prices: dict[tuple[str, str], float | None] = {}
        owners = {each.owner for each in chosen}
        listed = flow.asked(partial(flow.api.list, group), "machines can't be listed")
        for each in listed:
            if each.is_there and (parsed.truth("all") or each.owner in owners):
                kind = (each.spec, each.zone)
                if kind not in prices:
                    prices[kind] = _price(flow, *kind)
                shown[each.id] = (each, prices[kind])
    _show(list(shown.values()), now_s, parsed, printer)
    return Exit.DONE


def _price(flow: MachinesFlow, spec: str, zone: str) -> float | None:
    from umiak.submit.backends.cloud import sdk
    from umiak.submit.backends.cloud.api import CloudFailure

    try:
        return sdk.with_retries(lambda: flow.api.price(spec, zone)) if spec else None
    except CloudFailure:
        return None


def _show(shown: Sequence[tuple[RentedMachine, float | None]], now_s: float, parsed: Parsed, printer: Printer) -> None:
    if parsed.truth("json"):
        for each, hourly in shown:
            printer.data(asking.as_json(decisions.data(each, hourly, now_s)))
        return
    if not shown:
        printer.talk("no machines are rented")
        return
    rows = [["MACHINES", "ID", "STATE", "ADDRESS", "OWNER", "SINCE", "SO FAR", "RELEASE"]]
    total = 0.0
    for each, hourly in sorted(shown, key=lambda pair: (pair[0].group, pair[0].created_s or 0, pair[0].id)):
        cost = decisions.so_far(each, hourly, now_s)
        total += cost or 0
        rows.append(
            [
                one_line(each.group),
                each.id,
                each.word,
                each.public or each.internal or "-",
                one_line(each.owner) or "-",
                tables.ago(now_s - each.created_s) if each.created_s else "-",
                "-" if cost is None else decisions.money(cost),
                f"in {tables.span(each.release_s - now_s)}" if each.release_s else "NEVER",
            ]
        )
    size = asking.terminal_size(printer.out)
    hidden = ("OWNER", "SINCE", "SO FAR", "ADDRESS")
    printer.data(table_layout.rows(rows, size[0] if size else None, leave_out=hidden))
    printer.talk(f"together so far: {decisions.money(total)}, by today's price of the machines alone")
    never = sorted({each.group for each, _ in shown if not each.release_s})
    for group in never:
        printer.note(f"machines without a release time: {group}; set it: umiak machines up {group}")


_COMMANDS = {"up": _up, "image": _image, "down": _down}
