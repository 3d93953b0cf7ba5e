"""Finding accelerators from variables and a made-up file system, and dealing them out to workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.contract_helpers import cluster, node, setting, two_by_two
from umiak import contracts
from umiak.adapters import devices as finder
from umiak.contracts import devices as contract
from umiak.core.cluster import Mode, Role
from umiak.core.devices import DeviceKind, Devices
from umiak.core.problem import UmiakError

GPU, DCU, XPU, NPU = DeviceKind.GPU, DeviceKind.DCU, DeviceKind.XPU, DeviceKind.NPU


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node without devices, but with names that resemble some."""
    (tmp_path / "dev").mkdir()
    add_devices(tmp_path, "null", "nvidiactl", "nvidia-uvm", "nvidia-caps", "davinci_manager", "xpuctrl", "nvidia")
    return tmp_path


def add_devices(root: Path, *names: str) -> None:
    for name in names:
        (root / "dev" / name).touch()


def add_rocm(root: Path, *gpu_ids: str) -> None:
    add_devices(root, "kfd")
    for number, gpu_id in enumerate(gpu_ids):
        place = root / "sys/class/kfd/kfd/topology/nodes" / str(number)
        place.mkdir(parents=True)
        (place / "gpu_id").write_text(gpu_id + "\n")


def find(root: Path, **environ: str) -> Devices | None:
    return finder.find(environ, root=str(root))


# --- finding


def test_a_node_without_devices(root: Path) -> None:
    assert find(root) is None
    assert find(root / "not-there") is None


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("nvidia0", "nvidia1"), GPU),
        (("davinci0", "davinci1"), NPU),
        (("xpu0", "xpu1"), XPU),
        (("davinci0", "davinci7", "xpu0", "nvidia0", "nvidia1"), NPU),
        (("xpu0", "xpu3", "nvidia0"), XPU),
    ],
)
def test_device_files_are_counted(root: Path, names: tuple[str, ...], kind: DeviceKind) -> None:
    add_devices(root, *names)
    assert find(root) == Devices(kind=kind, ids=("0", "1"))


def test_ids_count_from_0_whatever_the_files_are_called(root: Path) -> None:
    """A container that was given two of eight: CUDA numbers what it sees."""
    add_devices(root, "nvidia3", "nvidia6")
    assert find(root) == Devices(kind=GPU, ids=("0", "1"))


def test_the_drivers_list_counts_only_where_there_are_no_device_files(root: Path) -> None:
    for bus in ("0000:17:00.0", "0000:65:00.0"):
        (root / "proc/driver/nvidia/gpus" / bus).mkdir(parents=True)
    assert find(root) == Devices(kind=GPU, ids=("0", "1"))
    add_devices(root, "nvidia1")
    assert find(root) == Devices(kind=GPU, ids=("0",))


def test_rocm_counts_gpu_nodes_of_the_topology(root: Path) -> None:
    add_rocm(root, "0", "0", "51463", "12345", "777")
    assert find(root) == Devices(kind=DCU, ids=("0", "1", "2"))
    assert find(root, ROCR_VISIBLE_DEVICES="1,2") == Devices(kind=DCU, ids=("0", "1"))
    assert find(root, ROCR_VISIBLE_DEVICES="") is None
    add_devices(root, "nvidia0")
    assert find(root) == Devices(kind=GPU, ids=("0",))


def test_kfd_without_a_gpu_is_nothing(root: Path) -> None:
    add_rocm(root, "0")
    assert find(root) is None


@pytest.mark.parametrize(
    ("variable", "kind"),
    [
        ("CUDA_VISIBLE_DEVICES", GPU),
        ("HIP_VISIBLE_DEVICES", DCU),
        ("XPU_VISIBLE_DEVICES", XPU),
        ("XPULINK_VISIBLE_DEVICES", XPU),
        ("ASCEND_RT_VISIBLE_DEVICES", NPU),
        ("NPU_VISIBLE_DEVICES", NPU),
    ],
)
def test_a_variable_is_believed(root: Path, variable: str, kind: DeviceKind) -> None:
    assert find(root, **{variable: " 2, 3"}) == Devices(kind=kind, ids=("2", "3"), said_by=variable)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("GPU-8f6d1d1c,MIG-aa/1/0", ("GPU-8f6d1d1c", "MIG-aa/1/0")),
        ("1,-1,0", ("1",)),
        ("1,,0", ("1",)),
        ("", None),
        ("-1", None),
        (" ", None),
        ("NoDevFiles", None),
        ("none", None),
    ],
)
def test_what_cuda_visible_devices_can_say(root: Path, text: str, ids: tuple[str, ...] | None) -> None:
    add_devices(root, "nvidia0", "nvidia1")
    found = find(root, CUDA_VISIBLE_DEVICES=text)
    assert found == (Devices(kind=GPU, ids=ids, said_by="CUDA_VISIBLE_DEVICES") if ids else None)


def test_all_means_count(root: Path) -> None:
    assert find(root, CUDA_VISIBLE_DEVICES="all") is None
    add_devices(root, "nvidia0", "nvidia1")
    assert find(root, CUDA_VISIBLE_DEVICES="all") == Devices(kind=GPU, ids=("0", "1"))


def test_hardware_that_is_there_beats_a_variable_of_another_kind(root: Path) -> None:
    add_devices(root, "nvidia0", "nvidia1")
    assert find(root, XPU_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="1") == Devices(
        kind=GPU, ids=("1",), said_by="CUDA_VISIBLE_DEVICES"
    )
    add_devices(root, "davinci0")
    assert find(root, CUDA_VISIBLE_DEVICES="1") == Devices(kind=NPU, ids=("0",))


def test_hidden_hardware_gives_way_to_the_next_kind(root: Path) -> None:
    add_devices(root, "davinci0", "nvidia0")
    assert find(root, ASCEND_RT_VISIBLE_DEVICES="") == Devices(kind=GPU, ids=("0",))


@pytest.mark.parametrize("kind", [XPU, DCU])
def test_cuda_visible_devices_speaks_of_kunlun_and_rocm_where_there_is_no_nvidia(root: Path, kind: DeviceKind) -> None:
    if kind is XPU:
        add_devices(root, "xpu0", "xpu1")
    else:
        add_rocm(root, "0", "11", "12")
    assert find(root, CUDA_VISIBLE_DEVICES="1") == Devices(kind=kind, ids=("1",), said_by="CUDA_VISIBLE_DEVICES")
    assert find(root, CUDA_VISIBLE_DEVICES="") is None


def test_the_runtimes_own_variable_comes_first(root: Path) -> None:
    found = find(root, NPU_VISIBLE_DEVICES="0,1", ASCEND_RT_VISIBLE_DEVICES="2")
    assert found == Devices(kind=NPU, ids=("2",), said_by="ASCEND_RT_VISIBLE_DEVICES")


# --- choosing


FOUR = Devices(kind=GPU, ids=("0", "1", "2", "3"))


def test_choosing_keeps_the_order() -> None:
    chosen = contract.choose(FOUR, ("3", "1"))
    assert chosen.used == ("3", "1")
    assert contract.workers_for(chosen) == 2
    assert (contract.workers_for(FOUR), contract.workers_for(None)) == (4, 1)


def problem_of(devices: Devices | None, wanted: tuple[str, ...]) -> str:
    with pytest.raises(UmiakError) as caught:
        contract.choose(devices, wanted)
    assert caught.value.exit_status == 2
    return "\n".join(caught.value.problems[0].lines())


def test_an_invisible_device_is_refused_with_both_lists() -> None:
    text = problem_of(Devices(kind=GPU, ids=("2", "3"), said_by="CUDA_VISIBLE_DEVICES"), ("0", "3"))
    assert "[UM-DEVICE-001]" in text
    assert "not visible: 0" in text
    assert "chosen: 0,3; visible: 2,3 (CUDA_VISIBLE_DEVICES)" in text
    assert "--devices 2,3" in text


def test_other_mistakes_in_choosing() -> None:
    assert "[UM-DEVICE-003]" in problem_of(FOUR, ("1", "1"))
    assert "[UM-DEVICE-004]" in problem_of(None, ("0",))
    assert "[UM-DEVICE-001]" in problem_of(FOUR, ())


# --- dealing out


@pytest.mark.parametrize(
    ("kind", "variables", "flag"),
    [
        (GPU, {"CUDA_VISIBLE_DEVICES"}, "FLAGS_selected_gpus"),
        (DCU, {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}, "FLAGS_selected_gpus"),
        (XPU, {"XPULINK_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES"}, "FLAGS_selected_xpus"),
        (NPU, {"ASCEND_RT_VISIBLE_DEVICES", "NPU_VISIBLE_DEVICES"}, "FLAGS_selected_npus"),
    ],
)
def test_every_kinds_variables(kind: DeviceKind, variables: set[str], flag: str) -> None:
    devices = Devices(kind=kind, ids=("0", "1", "2", "3"), chosen=("2", "3"))
    assert contract.device_environment(devices, local_rank=1, local_size=2) == {
        **dict.fromkeys(variables, "2,3"),
        flag: "1",
    }


def test_kunlun_told_by_cudas_variable_gets_it_back_narrowed() -> None:
    devices = Devices(kind=XPU, ids=("0", "1"), chosen=("1",), said_by="CUDA_VISIBLE_DEVICES")
    told = contract.device_environment(devices, local_rank=0, local_size=1)
    assert told["CUDA_VISIBLE_DEVICES"] == told["XPU_VISIBLE_DEVICES"] == "1"


def test_a_lone_worker_gets_all() -> None:
    assert contract.device_environment(FOUR, local_rank=0, local_size=1) == {"FLAGS_selected_gpus": "0,1,2,3"}


def test_fewer_workers_leave_devices_idle() -> None:
    flags = [contract.device_environment(FOUR, local_rank=i, local_size=2)["FLAGS_selected_gpus"] for i in (0, 1)]
    assert flags == ["0", "1"]
    assert contract.idle(FOUR, 2) == ("2", "3")
    assert contract.idle(FOUR, 1) == contract.idle(FOUR, 4) == contract.idle(None, 3) == ()


def test_more_workers_than_devices_is_an_error() -> None:
    with pytest.raises(UmiakError) as caught:
        contract.device_environment(FOUR, local_rank=0, local_size=5)
    assert caught.value.problems[0].lines()[0] == (
        "error: more workers than gpu devices: 5 workers, 4 devices [UM-DEVICE-002]"
    )
    contract.check_workers(FOUR, 4)
    contract.check_workers(None, 100)


def test_all_families_mean_the_same_device() -> None:
    formed = two_by_two()
    chosen = contract.choose(FOUR, ("3", "1"))
    told = contracts.environment(formed, formed.seats(Role.TRAINER)[3], setting(devices=chosen))
    visible = told["CUDA_VISIBLE_DEVICES"].split(",")
    assert visible == ["3", "1"]
    index = {told["LOCAL_RANK"], told["FLAGS_selected_gpus"], told["JAX_LOCAL_DEVICE_IDS"]}
    assert index == {"1"}


@pytest.mark.parametrize(("count", "flag"), [(4, "3"), (1, "0")])
def test_launchers_per_process_share_a_list_or_have_their_own(count: int, flag: str) -> None:
    """Four tasks on a machine: each sees all four devices, or (srun --gpus-per-task=1) its own one only."""
    formed = cluster(*(node(f"n{i}", "10.0.0.1", first_local_rank=i, local_size=4) for i in range(4)))
    devices = Devices(kind=GPU, ids=tuple(str(i) for i in range(count)))
    told = contracts.environment(formed, formed.seats(Role.TRAINER)[3], setting(devices=devices))
    assert told["FLAGS_selected_gpus"] == told["JAX_LOCAL_DEVICE_IDS"] == flag


def test_beside_servers_devices_are_used_only_if_chosen() -> None:
    formed = cluster(node("a", "10.0.0.1", servers=1, trainers=6))

    def told(role: Role, devices: Devices) -> dict[str, str]:
        return contracts.environment(formed, formed.seats(role)[0], setting(mode=Mode.PS, devices=devices))

    assert "FLAGS_selected_gpus" not in told(Role.TRAINER, FOUR)
    six = Devices(kind=GPU, ids=tuple("012345"), chosen=tuple("543210"))
    assert told(Role.TRAINER, six)["FLAGS_selected_gpus"] == "0"
    assert "CUDA_VISIBLE_DEVICES" not in told(Role.SERVER, six)
