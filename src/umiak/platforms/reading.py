"""Reading an environment without trusting it: typed access that collects problems, and the checks all rules share.
A decider.

A `Reader` is handed to one rule. Its methods return what a variable says, or `None`; what is malformed is noted and
reading goes on, so that `settle` can raise everything that is wrong in one go. An empty variable counts as not set:
manifests often leave one empty.

The kinds of problem, with their codes:

    001 unknown platform     002 forced platform not found   003 not a number       004 rank out of range
    005 counts disagree      006 duplicate host              007 wrong own address   008 malformed JSON
    009 malformed host list  010 not a training role         011 variable missing    012 file not readable
"""

from __future__ import annotations

from umiak.core.cluster import MOST_NODES, Placement, join_host_port, split_host_port
from umiak.core.names import DefaultPort, is_digits
from umiak.core.problem import Problem, UmiakError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from umiak.core.json_types import JsonObject

CHECK = "correct the variable, or pass `--topology none` and say `--nnodes`, `--rank` and `--master` yourself"


class Reader:
    """One look at one environment."""

    def __init__(self, environ: Mapping[str, str], read: Callable[[str], str | None], *, platform: str) -> None:
        self.environ = environ
        self.platform = platform
        self.problems: list[Problem] = []
        self._read = read

    def wrong(self, number: str, where: str, what: str, *, why: str | None = None, hint: str = CHECK) -> None:
        """Note a problem of kind ``number``; ``settle`` raises it."""
        self.problems.append(Problem(code=f"UM-PLATFORM-{number}", where=where, what=_clip(what), why=why, hint=hint))

    def text(self, name: str) -> str | None:
        return self.environ.get(name, "").strip() or None

    def first(self, *names: str) -> str:
        """The first of these variables that is set; if none is, the first name, so that it can be asked for."""
        return next((name for name in names if self.text(name) is not None), names[0])

    def number(self, name: str, *, least: int = 0) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        number = whole(text)
        if number is None or number < least:
            self.wrong("003", name, f"expected an integer, {least} or more: {text}")
            return None
        return number

    def port(self, name: str) -> int | None:
        port = self.number(name, least=1)
        if port is not None and port > 65535:
            self.wrong("003", name, f"expected a port between 1 and 65535, got {port}")
        return port

    def needed(self, name: str, *, least: int = 0) -> int:
        """A number without which the rule makes no sense. 0 stands in for it until ``settle`` raises."""
        if self.text(name) is None:
            self.wrong("011", name, f"not set, but this is a {self.platform} job: {name}")
        return self.number(name, least=least) or 0

    def span(self, name: str) -> int | None:
        """A node count that may be a range: ``4`` and ``4:4`` are 4; ``2:4`` says no fixed number."""
        text = self.text(name)
        if text is None:
            return None
        ends = [whole(end) for end in text.split(":")]
        if len(ends) > 2 or not all(ends):
            self.wrong("003", name, f"expected a number of nodes, got {text}")
        return ends[0] if ends[0] == ends[-1] else None

    def items(self, name: str) -> tuple[str, ...]:
        """The words of a list, whatever separates them: commas, blanks or lines."""
        return tuple((self.text(name) or "").replace(",", " ").split())

    def endpoints(self, name: str) -> tuple[str, ...]:
        """A list whose every item must be ``host:port``."""
        endpoints = self.items(name)
        for item in endpoints:
            if self.host_port(item, name)[1] is None:
                self.wrong("009", name, f"no port in: {item}")
        return endpoints

    def host_port(self, item: str, name: str) -> tuple[str, int | None]:
        """The two parts of an item found in variable ``name``."""
        try:
            return split_host_port(item)
        except ValueError:
            self.wrong("009", name, f"expected a host or host:port, got {item}")
            return item, DefaultPort.MASTER

    def master(self, name: str) -> str | None:
        """A meeting point: ``host:port``, completed with our port if it has none, or ``etcd://...`` as it is."""
        text = self.text(name)
        if text is None or text.startswith("etcd://"):
            return text
        return master_endpoint(*self.host_port(text, name))

    def mapping(self, name: str) -> JsonObject:
        """A JSON object."""
        mapping = self._json(name)
        if not isinstance(mapping, dict):
            self.wrong("008", name, f"expected a JSON object, got {mapping}")
            raise UmiakError(*self.problems)
        return mapping

    def strings(self, found: object, name: str) -> tuple[str, ...]:
        """A list of strings out of the JSON of variable ``name``."""
        if isinstance(found, list) and all(isinstance(item, str) and item.strip() for item in found):
            return tuple(item.strip() for item in found)
        self.wrong("008", name, f"expected a list of hosts, got {found}")
        return ()

    def json_strings(self, name: str) -> tuple[str, ...]:
        return self.strings(self._json(name), name)

    def _json(self, name: str) -> object:
        import json

        text = self.text(name) or "null"
        try:
            return json.loads(text)
        except ValueError as error:
            self.wrong("008", name, f"not JSON: {text}", why=str(error))
            raise UmiakError(*self.problems) from None  # nothing behind it can be read

    def lines(self, name: str, *, needed: bool = True) -> tuple[str, ...]:
        """The words of the file that variable ``name`` points to."""
        path = self.text(name)
        if path is None:
            return ()
        text = self._read(path)
        if text is None and needed:
            self.wrong("012", name, f"this file can't be read: {path}", hint=_FILE_HINT)
        return tuple((text or "").split())

    def reason(self, rank: str, nodes: str) -> str:
        """The deciding variables as a person may read them: ``SLURM_NODEID=1 of SLURM_STEP_NUM_NODES=2``."""
        settings = [f"{name}={self.text(name)}" for name in (rank, nodes) if self.text(name) is not None]
        return " of ".join(settings)

    def settle(self, placement: Placement, *, rank: str, nodes: str, hosts: str, host: str | None = None) -> Placement:
        """The placement, if nothing contradicts it. The names say which variable to blame for which part."""
        count, seat, listed = placement.nodes, placement.rank, placement.hosts
        if count is not None and count > MOST_NODES:
            self.wrong("003", nodes, f"more than {MOST_NODES} nodes: {count}")
        if count is not None and seat is not None and seat >= count:
            self.wrong("004", rank, f"rank {seat} is out of range: {nodes} gives {count}, so ranks end at {count - 1}")
        if listed and count is not None and len(listed) != count:
            self.wrong("005", hosts, f"{len(listed)} hosts are listed, but {nodes} says: {count}")
        fixed = placement.server_endpoints + placement.trainer_endpoints + placement.heter_endpoints
        for twice in _duplicates(fixed or listed):
            self.wrong("006", hosts, f"listed more than once: {twice}")
        if host is not None and placement.host is not None and listed:
            self._own_host(placement.host, listed, seat, host, hosts)
        self.raise_problems()
        return placement

    def _own_host(self, own: str, listed: tuple[str, ...], seat: int | None, name: str, hosts: str) -> None:
        # Whole names only: by prefix, worker-1 would also be worker-10.
        if own not in listed:
            recreated = "a recreated pod gets another address than the one its peers know"
            why = recreated if name == "POD_IP" else None
            self.wrong("007", name, f"this node's address is not in {hosts}: {own}", why=why)
        elif seat is not None and seat < len(listed) and listed[seat] != own:
            self.wrong("007", name, f"{own} is number {listed.index(own)} in {hosts}, but this node's rank is {seat}")

    def raise_problems(self) -> None:
        """Raise what has been noted so far, if anything."""
        UmiakError.raise_any(self.problems)


def whole(text: str) -> int | None:
    """A whole number in plain digits, of a length that can mean something."""
    return int(text) if is_digits(text) and len(text) <= 18 else None


def master_endpoint(host: str, port: int | None = None) -> str:
    """``host:port``, with our own port where none is known."""
    return join_host_port(host, DefaultPort.MASTER if port is None else port)


def port_of_job(number: int) -> int:
    """A port that two jobs on one machine hardly share, outside the kernel's ephemeral range (32768 and up)."""
    return 20000 + number % 8192


def unique(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without repetitions, in the order of first appearance."""
    return tuple(dict.fromkeys(words))


def _duplicates(words: tuple[str, ...]) -> tuple[str, ...]:
    seen: set[str] = set()
    twice: list[str] = []
    for word in words:
        (twice.append if word in seen else seen.add)(word)
    return unique(tuple(twice))


def _clip(text: str, most: int = 200) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


_FILE_HINT = (
    "the file is on the job's first host only; copy it to the others, or pass `--nnodes`, `--rank` and `--master`"
)
