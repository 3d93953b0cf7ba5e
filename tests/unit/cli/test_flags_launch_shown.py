"""Flags of `umiak launch`: how they are shown, those of gloo, and values that look like others."""

from __future__ import annotations

import pytest

from tests.unit.cli.test_flags_launch import options, problems
from umiak.launch.command_line.reading import read


def test_the_block_shows_what_differs_from_the_defaults() -> None:
    assert options("--devices 6,7 --with_gloo 0 demo.py").shown == (
        ("devices", "6,7"),
        ("training_script", "demo.py"),
        ("with_gloo", "0"),
    )
    assert options("--nnodes 1 --log_level info demo.py").shown == (("training_script", "demo.py"),)


def test_the_block_of_the_document() -> None:
    """What Paddle has always shown is shown with --verbose, and everything else that has a value."""
    whole = options("--verbose --devices 6,7 --with_gloo 0 demo.py").shown
    assert {
        ("devices", "6,7"),
        ("elastic_level", "-1"),
        ("elastic_timeout", "30"),
        ("gloo_port", "6767"),
        ("host", "None"),
        ("job_id", "default"),
        ("legacy", "False"),
        ("log_dir", "log"),
        ("log_level", "INFO"),
        ("master", "None"),
        ("max_restart", "3"),
        ("nnodes", "1"),
        ("nproc_per_node", "None"),
        ("rank", "-1"),
        ("run_mode", "collective"),
        ("server_num", "None"),
        ("servers", ""),
        ("trainer_num", "None"),
        ("trainers", ""),
        ("training_script", "demo.py"),
        ("training_script_args", "[]"),
        ("with_gloo", "0"),
    } <= {*whole}
    assert {("grace", "30"), ("tee", "0"), ("heartbeat_timeout", "5")} <= {*whole}
    assert list(whole) == sorted(whole)
    assert {name for name, _ in whole} & {"verbose", "quiet", "check", "max_restarts", "nproc"} == set()


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("x.py", "INFO"),
        ("--quiet x.py", "WARNING"),
        ("-q x.py", "WARNING"),
        ("-q --log_level DEBUG x.py", "WARNING"),
        ("-q --log_level ERROR x.py", "ERROR"),
        ("--quiet=False x.py", "INFO"),
        ("-v x.py", "INFO"),
    ],
)
def test_quiet_is_a_level(line: str, level: str) -> None:
    assert options(line).log_level == level


def test_quiet_and_verbose() -> None:
    assert read(["-q", "-v", "x.py"], {}).notes == ("--verbose is not used: --quiet is said as well",)


def test_other_flags_are_shown_when_they_are_said() -> None:
    shown = dict(
        options("--nnodes 2:4 --grace 1m --sort_ip --server_num 2 -m a.b --lr 0.1", {"UMIAK_TEE": "all"}).shown
    )
    assert shown["nnodes"] == "2:4"
    assert shown["grace"] == "60"
    assert shown["sort_ip"] == "True"
    assert shown["tee"] == "all"
    assert (shown["run_mode"], shown["server_num"]) == ("ps", "2")
    assert "trainer_num" not in shown
    assert (shown["training_script"], shown["training_script_args"]) == ("a.b", "['--lr', '0.1']")
    assert list(shown) == sorted(shown)
    assert dict(options("--ips a,b x.py").shown)["nnodes"] == "2"
    assert options("--print_config False x.py").shown == ()


# ---- gloo, as the old launcher had it


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--server_num 1 --trainer_num 2 x.py", 1),
        ("--server_num 1 --worker_num 2 x.py", 0),
        ("--servers h:1 --workers h:2 x.py", 0),
        ("--server_num 1 --legacy True x.py", 0),
        ("--server_num 1 --worker_num 1 --http_port 9000 x.py", 0),
        ("--server_num 1 --worker_num 2 --with_gloo 1 x.py", 1),
        ("--master 10.0.0.1:8090 --server_num 1 --worker_num 2 x.py", 1),
        ("--nproc_per_node 2 x.py", 1),
    ],
)
def test_gloo_is_off_where_the_old_launcher_ran(line: str, expected: int) -> None:
    assert options(line).with_gloo == expected


def test_the_environment_turns_gloo_on_for_the_old_launcher_too() -> None:
    assert options("--server_num 1 --worker_num 2 x.py", {"PADDLE_WITH_GLOO": "2"}).with_gloo == 2


# ---- values that look like others, or like nothing


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("''", ["UM-LAUNCH-139"]),
        ("' ' --lr 1", ["UM-LAUNCH-139"]),
        ("-m ''", ["UM-LAUNCH-139"]),
        ("--log_overwrite maybe x.py", ["UM-CLI-003"]),
        ("--log_overwrite=maybe x.py", ["UM-CLI-003"]),
        ("--sort_ip ja x.py", ["UM-CLI-003"]),
        ("--log_dir '' x.py", ["UM-LAUNCH-140"]),
        ("--log_dir= x.py", ["UM-LAUNCH-140"]),
        (f"--nnodes {10**20} x.py", ["UM-LAUNCH-102"]),
        (f"--nnodes 1:{10**20} x.py", ["UM-LAUNCH-102"]),
        ("--nnodes 65537 x.py", ["UM-LAUNCH-102"]),
        ("--nnodes 1_0 x.py", ["UM-LAUNCH-102"]),
        (f"--nproc_per_node {10**20} x.py", ["UM-CLI-003"]),
        (f"--max_restart {'9' * 5000} x.py", ["UM-CLI-003"]),
        (f"--join_timeout {10**20} x.py", ["UM-CLI-003"]),
        (f"--server_num {10**6} x.py", ["UM-CLI-003"]),
        (f"--heter_worker_num {10**6} x.py", ["UM-LAUNCH-114"]),
    ],
)
def test_values_that_can_only_be_mistakes(line: str, codes: list[str]) -> None:
    assert problems(line) == codes


@pytest.mark.parametrize("digit", ["\u0662", "\u0968", "\uff12", "\U0001d7da"], ids=ascii)
def test_digits_of_other_scripts_are_no_numbers(digit: str) -> None:
    for flag in ("nnodes", "nproc_per_node", "max_restart", "rank", "elastic_timeout", "log_max_bytes", "devices"):
        assert problems(f"--{flag} {digit} x.py")
    assert problems(f"--master 10.0.0.1:809{digit} x.py") == ["UM-LAUNCH-103"]
    assert problems(f"--heter_worker_num {digit} x.py") == ["UM-LAUNCH-114"]
    assert problems("x.py", {"PADDLE_NNODES": digit}) == ["UM-LAUNCH-102"]
    assert problems(f"--host 10.0.0.{digit} x.py") == ["UM-LAUNCH-109"]


def test_what_follows_a_flag_may_still_be_the_program() -> None:
    for program in ("x.py", "./x", "bin/x"):
        assert options(f"--log_overwrite {program}").program == (program,)
    assert options("--log_overwrite True maybe").program == ("maybe",)
    assert options("--log_overwrite -- maybe").program == ("maybe",)
    assert options("--log_overwrite -m maybe").program == ("maybe",)
