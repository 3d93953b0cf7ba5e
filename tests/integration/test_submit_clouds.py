"""ModelArts, AIHC, PAI and BML: the vendors' own SDKs talk to stand-ins that check signatures, over real sockets, with a real S3 server.

The law, the faults and the secrets of all four are tested alike; what is one cloud's own is in tests/unit/submit/test_cloud_requests.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import moto_server
from testbed.clouds import sdks
from testbed.clouds.aihc import AihcStandIn
from testbed.clouds.bml import BmlStandIn
from testbed.clouds.modelarts import PROJECT, ModelArtsStandIn
from testbed.clouds.pai import PaiStandIn
from testbed.clouds.server import ACCESS, SECRET, StandIn, serving
from testbed.ports import free_port
from testbed.pytest_support import require
from tests.support import PATIENCE_S, remember_launcher
from umiak.adapters.stores.s3 import S3Store
from umiak.core.bundle import shown
from umiak.core.cluster import Role
from umiak.core.job import FileSet, Job, Replicas, RoleSpec
from umiak.core.problem import UmiakError
from umiak.core.status import State
from umiak.core.value import replace
from umiak.submit import places, registry
from umiak.submit.backend import AnswerLost, LogsWanted, Secrets, Submission, SubmitContext
from umiak.submit.backends.cloud.backend import CloudBackend

pytestmark = [
    # SDKs leave sockets to the garbage collector, and use what Python is about to drop.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TOKEN = "0123456789abcdef-job-token"
PASSPORT = "passport-value-77aa"
CLOUDS: dict[str, tuple[type[StandIn], str, tuple[str, ...], str]] = {
    "modelarts": (
        ModelArtsStandIn,
        f'store = "obs://bucket/umiak"\nproject = "{PROJECT}"\nflavor = "modelarts.vm.gpu.v100"\n',
        ("HUAWEICLOUD_SDK_AK", "HUAWEICLOUD_SDK_SK"),
        "Completed",
    ),
    "aihc": (
        AihcStandIn,
        'store = "bos://bucket/umiak"\npool = "cce-pool"\nqueue = "default"\n',
        ("BCE_ACCESS_KEY_ID", "BCE_SECRET_ACCESS_KEY"),
        "Succeeded",
    ),
    "pai": (
        PaiStandIn,
        'store = "oss://bucket/umiak"\nworkspace = "268"\nspec = "ecs.g6.large"\n',
        ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"),
        "Succeeded",
    ),
    "bml": (
        BmlStandIn,
        'store = "bos://bucket/umiak"\nrepository = "repo-1"\nresource = "CPU_4C_16G"\n',
        ("BML_API_KEY", "BML_SECRET_KEY"),
        "SUCCESS",
    ),
}
WITH_LOGS = [name for name in CLOUDS if name != "bml"]
PODS = {"modelarts": "worker-{}", "aihc": "{name}-{kind}", "pai": "{id}-{kind}"}


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The SDKs, and a launcher that is built once."""
    require(sdks.available())
    require(moto_server.available())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(sys, "path", [*sys.path, str(sdks.path())])
        yield


@pytest.fixture(scope="module")
def s3_of_all() -> Iterator[moto_server.S3Server]:
    with moto_server.server() as running:
        yield running


@pytest.fixture(params=list(CLOUDS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cloud(name: str) -> Iterator[StandIn]:
    with serving(CLOUDS[name][0]()) as running:
        yield running


@pytest.fixture
def environ(
    name: str, s3_of_all: moto_server.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Of a person who has keys. Huawei's SDK writes a file into the home directory."""
    home = tmp_path / "home"
    remember_launcher(home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("NO_PROXY", "*")
    access, secret = (s3_of_all.environ[each] for each in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    store = {
        "OBS_ACCESS_KEY_ID": access,
        "OBS_SECRET_ACCESS_KEY": secret,
        "BOS_ACCESS_KEY_ID": access,
        "BOS_SECRET_ACCESS_KEY": secret,
        "OSS_ACCESS_KEY_ID": access,
        "OSS_ACCESS_KEY_SECRET": secret,
    }
    return {**store, CLOUDS[name][2][0]: ACCESS, CLOUDS[name][2][1]: SECRET, "PASSPORT": PASSPORT, "HOME": str(home)}


@pytest.fixture
def place(
    name: str, cloud: StandIn, s3_of_all: moto_server.S3Server, environ: dict[str, str], tmp_path: Path
) -> CloudBackend:
    return made(name, cloud, s3_of_all, environ, tmp_path)


def settings_of(name: str, cloud: StandIn, s3: moto_server.S3Server) -> str:
    return (
        f'[place.lab]\nbackend = "{name}"\nregion = "us-east-1"\nendpoint = "{cloud.url}"\n'
        f'store_endpoint = "{s3.environ["AWS_ENDPOINT_URL"]}"\nimage = "/team/paddle:2.6"\n'
        f"poll = 0.01\ntimeout = 1\n{CLOUDS[name][1]}"
    )


def made(
    name: str, cloud: StandIn, s3: moto_server.S3Server, environ: dict[str, str], tmp_path: Path, more: str = ""
) -> CloudBackend:
    settings = settings_of(name, cloud, s3) + more
    reading = places.read([("umiak.toml", settings)], registry.BackendNames())
    assert not reading.problems
    work = tmp_path / "project"
    work.mkdir(exist_ok=True)
    (work / "train.py").write_text(
        "import os\nprint('rank', os.environ.get('UMIAK_RANK'), os.environ['PASSPORT'][:8])\n"
    )
    context = SubmitContext(environ=environ, directory=str(work), state_directory=str(tmp_path / "state"))
    backend = registry.make(reading.places["lab"], context)
    assert isinstance(backend, CloudBackend)
    backend.FIRST_DELAY_S = 0.01
    return backend


JOB = Job(
    name="ctr.Demo",
    command=("train.py",),
    roles=(RoleSpec(nodes=Replicas(least=2, most=2)),),
    files=FileSet(),
    secrets=("PASSPORT",),
)

ROLES = """
import os, socket, time
role, count = os.environ["TRAINING_ROLE"], os.environ["PADDLE_TRAINERS_NUM"]
if role == "PSERVER":
    listening = socket.create_server((os.environ["POD_IP"], int(os.environ["PADDLE_PORT"])))
    with open("server.part", "w") as file:
        file.write(f"{role} {os.environ['UMIAK_RANK']} of {count}")
    os.rename("server.part", "server")
while not os.path.exists("done" if role == "PSERVER" else "server"):
    time.sleep(0.02)
if role == "TRAINER":
    print("trainer", os.environ["UMIAK_RANK"], "of", count, "saw", open("server").read())
    open("done", "w").close()
"""
"""A server leaves word for the trainer, and waits for its end: the containers of this machine share their directory."""


def submission(place: CloudBackend, job: Job = JOB, run_id: str = "ctr.Demo-3f2a9c1b") -> Submission:
    secrets = Secrets({"UMIAK_TOKEN": TOKEN, "PASSPORT": PASSPORT})
    return Submission(run_id=run_id, job=job, bundle=place.render(job, run_id), secrets=secrets)


def store(s3: moto_server.S3Server) -> S3Store:
    return S3Store.of("s3://bucket/x", {**s3.environ, "AWS_ENDPOINT_URL": s3.direct})


def pod_id(name: str, cloud: StandIn, rank: int) -> str:
    job = cloud.only_job()
    kind = "master-0" if rank == 0 else f"worker-{rank - 1}"
    return PODS[name].format(rank, name=job.name, id=job.id, kind=kind)


def test_a_job_from_submission_to_its_end(name: str, cloud: StandIn, place: CloudBackend) -> None:
    assert place.check(JOB) == []
    handle = place.submit(submission(place))
    assert str(handle).startswith(f"{name}://lab/")
    status = place.status(handle)
    assert status.state is State.QUEUED
    assert [each.name for each in status.nodes] == ["trainer.0", "trainer.1"]
    assert list(place.list()) == [handle]
    cloud.only_job().word = CLOUDS[name][3]
    status = place.status(handle)
    assert (status.state, status.exit_status, status.said) == (State.SUCCEEDED, 0, CLOUDS[name][3])


def test_a_failure_has_its_reason(name: str, cloud: StandIn, place: CloudBackend) -> None:
    handle = place.submit(submission(place))
    job = cloud.only_job()
    job.word, job.reason = {"bml": "FAILED"}.get(name, "Failed"), "out of memory"
    if name in ("modelarts", "aihc"):
        job.exit_codes[pod_id(name, cloud, 1)] = 137
    status = place.status(handle)
    assert status.state is State.FAILED
    assert "out of memory" in status.reason
    assert status.exit_status == (137 if name in ("modelarts", "aihc") else 1)


def test_a_job_that_is_gone_is_lost(place: CloudBackend, cloud: StandIn) -> None:
    handle = place.submit(submission(place))
    cloud.jobs.clear()
    assert place.status(handle).state is State.LOST
    with pytest.raises(UmiakError, match="no such job"):
        place.cancel(handle, 1)


def test_a_state_that_nobody_knows_is_told(place: CloudBackend, cloud: StandIn) -> None:
    handle = place.submit(submission(place))
    cloud.only_job().word = "DANCING"
    with pytest.raises(UmiakError, match="DANCING"):
        place.status(handle)


@pytest.mark.parametrize("fault", ["429", "500", "503", "lost", "hang"])
def test_one_job_is_made_whatever_happens_to_the_answer(cloud: StandIn, place: CloudBackend, fault: str) -> None:
    cloud.faults = [f"create:{fault}", "list:500", "list:429"]
    handle = place.submit(submission(place))
    assert [cloud.only_job().id] == [handle.id]
    assert not cloud.faults
    assert cloud.count("create") == (1 if fault == "lost" else 2)


def test_the_same_run_again_is_the_same_job(cloud: StandIn, place: CloudBackend) -> None:
    """Also if all that was heard of it is nothing at all."""
    cloud.faults = ["create:lost", *["list:500"] * 6]
    first_list_is_answered(cloud)
    with pytest.raises(AnswerLost):
        place.submit(submission(place))
    cloud.faults = []
    handle = place.submit(submission(place))
    assert handle.id == cloud.only_job().id
    assert cloud.count("create") == 1


def first_list_is_answered(cloud: StandIn) -> None:
    """The job is looked for twice before it is made: those looks succeed, and the ones after it fail."""
    obey, seen = cloud._fault, []

    def fault(action: str) -> str:
        if action == "list" and len(seen) < 2:
            seen.append(action)
            return ""
        return obey(action)

    cloud._fault = fault  # type: ignore[method-assign]


def test_a_request_that_arrives_late_leaves_one_job(cloud: StandIn, place: CloudBackend) -> None:
    """It was given up, the job was made again, and then it was obeyed after all."""
    cloud.faults = ["create:late"]
    real = cloud.obey

    def obey(action: str, request: Any) -> tuple[int, dict[str, Any]]:
        answer = real(action, request)
        if action == "create" and len(cloud.jobs) == 1:
            cloud.release()
        return answer

    cloud.obey = obey  # type: ignore[method-assign]
    handle = place.submit(submission(place))
    assert len(cloud.jobs) == 2
    alive = [each.id for each in cloud.jobs.values() if not each.is_stopped]
    assert alive == [handle.id]


def test_what_is_refused_is_told_and_nothing_is_started(cloud: StandIn, place: CloudBackend) -> None:
    cloud.faults = ["create:400"]
    with pytest.raises(UmiakError, match="not started") as caught:
        place.submit(submission(place))
    assert not isinstance(caught.value, AnswerLost)
    assert "400" in (caught.value.problems[0].why or "")
    assert not cloud.jobs


def test_a_wrong_key_is_told_without_any_key(
    name: str, cloud: StandIn, s3_of_all: moto_server.S3Server, environ: dict[str, str], tmp_path: Path
) -> None:
    wrong = {**environ, CLOUDS[name][2][1]: "not-the-secret-key"}
    place = made(name, cloud, s3_of_all, wrong, tmp_path)
    with pytest.raises(UmiakError) as caught:
        place.submit(submission(place))
    text = "\n".join(caught.value.problems[0].lines())
    assert "UM-SUBMIT-263" in text
    assert CLOUDS[name][2][0] in text
    assert "not-the-secret-key" not in text
    assert ACCESS not in text


@pytest.mark.parametrize("fault", ["429", "500", "lost", "hang"])
def test_questions_are_asked_again(cloud: StandIn, place: CloudBackend, fault: str) -> None:
    handle = place.submit(submission(place))
    cloud.faults = [f"get:{fault}", f"get:{fault}"]
    assert place.status(handle).state is State.QUEUED
    assert not cloud.faults


def test_a_cloud_that_never_answers_is_told(cloud: StandIn, place: CloudBackend) -> None:
    handle = place.submit(submission(place))
    cloud.faults = ["get:503"] * 6
    with pytest.raises(UmiakError) as caught:
        place.status(handle)
    assert caught.value.problems[0].code == "UM-SUBMIT-269"


def test_cancelling(cloud: StandIn, place: CloudBackend) -> None:
    handle = place.submit(submission(place))
    cloud.faults = ["stop:500"]
    place.cancel(handle, 5)
    assert cloud.only_job().is_stopped
    assert place.status(handle).state is State.CANCELLED
    place.cancel(handle, 5)
    assert cloud.count("stop") == 2


def test_more_jobs_than_one_page(cloud: StandIn, place: CloudBackend) -> None:
    handle = place.submit(submission(place))
    job = cloud.only_job()
    for number in range(120):
        cloud.new_job(f"{job.id}-{number}", f"{job.name}-{number}", {**job.body})
    assert len(list(place.list())) == 121
    assert place.submit(submission(place)) == handle


@pytest.mark.parametrize("name", ["bml"])
def test_an_expired_token_is_exchanged_again(cloud: BmlStandIn, place: CloudBackend) -> None:
    handle = place.submit(submission(place))
    cloud.token = "24.second-token"
    assert place.status(handle).state is State.QUEUED
    assert cloud.count("token") == 2


@pytest.mark.parametrize("name", ["modelarts"])
def test_modelarts_tells_what_it_no_longer_shows(cloud: StandIn, place: CloudBackend) -> None:
    handle = place.submit(submission(place))
    job = cloud.only_job()
    job.log("worker-0", *[f"line {number:03}" for number in range(100)])
    lines = [line.text for line in place.logs(handle, LogsWanted(rank=0))]
    assert "bytes of this log are too old" in lines[0]
    assert lines[-1] == "line 099"


def test_what_is_known_by_its_content_is_uploaded_once(
    name: str, place: CloudBackend, s3_of_all: moto_server.S3Server, cloud: StandIn
) -> None:
    if name == "bml":
        pytest.skip("BML brings one directory into its containers")
    place.submit(submission(place))
    keys = {key for key, _ in store(s3_of_all).list("umiak/") if "/runs/" not in key}
    place.submit(submission(place, run_id="ctr.Demo-00000002"))
    assert {key for key, _ in store(s3_of_all).list("umiak/") if "/runs/" not in key} == keys
    assert len(cloud.jobs) == 2


def test_secrets_are_nowhere_but_in_their_object(
    name: str, place: CloudBackend, s3_of_all: moto_server.S3Server, cloud: StandIn, tmp_path: Path
) -> None:
    """Not in requests, rendered files, uploads, this machine's files; and gone from the store when the run is over."""
    run_id = f"{name}-5ec12e75"
    asked = submission(place, run_id=run_id)
    handle = place.submit(asked)
    hidden = [TOKEN, PASSPORT, SECRET]
    sent = b"".join(request.body + repr(request.headers).encode() for _, request in cloud.requests)
    sent += repr([request.query for action, request in cloud.requests if action != "token"]).encode()
    assert not any(each.encode() in sent for each in hidden)
    assert not any(each in shown(asked.bundle) + repr(asked) for each in hidden)
    objects = store(s3_of_all)
    found = []
    for key, _ in list(objects.list("umiak/")):
        target = tmp_path / "object"
        objects.get(key, str(target))
        if any(each.encode() in target.read_bytes() for each in hidden):
            found.append(key)
    assert [key for key in found if run_id in key] == [f"umiak/runs/{run_id}/secrets.json"]
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "object":
            assert not any(each.encode() in path.read_bytes() for each in hidden), path
    cloud.only_job().word = CLOUDS[name][3]
    place.status(handle)
    assert f"umiak/runs/{run_id}/secrets.json" not in {key for key, _ in objects.list("umiak/runs/")}


def test_a_bucket_that_refuses_leaves_no_job(
    name: str, cloud: StandIn, s3_of_all: moto_server.S3Server, environ: dict[str, str], tmp_path: Path
) -> None:
    wrong = {each: "wrong" if each.startswith(("OBS", "BOS", "OSS")) else text for each, text in environ.items()}
    place = made(name, cloud, s3_of_all, wrong, tmp_path)
    with pytest.raises(UmiakError, match="failed"):
        place.submit(submission(place))
    assert not cloud.jobs


def ends_of(running: list[subprocess.Popen[str]]) -> list[str]:
    """What containers printed; none is left behind."""
    try:
        return [each.communicate(timeout=PATIENCE_S)[0] for each in running]
    finally:
        for each in running:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
                each.communicate()


def brought(body: dict[str, Any], name: str, s3: moto_server.S3Server) -> list[str]:
    """What a cloud does before it starts a container: every directory of the store lies where the request says."""
    if name == "modelarts":
        algorithm = body["algorithm"]
        pairs = [(algorithm["code_dir"], algorithm["local_code_dir"])]
        pairs += [(each["remote"]["obs"]["obs_url"], each["local_dir"]) for each in algorithm["inputs"]]
        command = algorithm["command"]
    elif name == "aihc":
        pairs = [(each["sourcePath"].removeprefix("bos:"), each["mountPath"]) for each in body["datasources"]]
        command = body["command"]
    else:
        pairs = [(each["Uri"].removeprefix("oss:/"), each["MountPath"]) for each in body["DataSources"]]
        command = body["UserCommand"]
    objects = store(s3)
    for source, target in pairs:
        prefix = source.removeprefix("/bucket/")
        for key, _ in objects.list(prefix):
            path = Path(target, key.removeprefix(prefix))
            path.parent.mkdir(parents=True, exist_ok=True)
            objects.get(key, str(path))
    return ["sh", "-c", command]


@pytest.mark.parametrize("name", ["aihc", "pai"])
def test_containers_train(
    name: str,
    cloud: StandIn,
    s3_of_all: moto_server.S3Server,
    environ: dict[str, str],
    tmp_path: Path,
) -> None:
    """Two containers with the variables of the cloud really run what was submitted, with nothing of umiak installed in them."""
    more = f'directory = "{tmp_path}/container"\npython = "{sys.executable}"\n'
    place = made(name, cloud, s3_of_all, environ, tmp_path, more)
    place.submit(submission(place))
    command = brought(cloud.only_job().body, name, s3_of_all)
    running = []
    port = free_port()
    for rank in range(2):
        said = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        said |= {"AIHC_JOB_NAME": "ctr"} if name == "aihc" else {}
        clean = {"PATH": os.environ["PATH"], "HOME": environ["HOME"], **said}
        running.append(
            subprocess.Popen(
                command,
                env=clean,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd="/",
                start_new_session=True,
            )
        )
    out = ends_of(running)
    assert [each.returncode for each in running] == [0, 0], out
    text = "".join(out)
    assert "rank 0 passport" in text, out
    assert TOKEN not in text
    private = tmp_path / "container" / "private" / "secrets.json"
    assert private.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["aihc"])
def test_servers_and_trainers_on_nodes_that_are_alike(
    cloud: StandIn, s3_of_all: moto_server.S3Server, environ: dict[str, str], tmp_path: Path
) -> None:
    """The first node becomes the server by its number, the others trainers."""
    more = f'directory = "{tmp_path}/container"\npython = "{sys.executable}"\n'
    place = made("aihc", cloud, s3_of_all, environ, tmp_path, more)
    (tmp_path / "project" / "train.py").write_text(ROLES)
    roles = (RoleSpec(role=Role.SERVER), RoleSpec(role=Role.TRAINER))
    handle = place.submit(submission(place, replace(JOB, roles=roles)))
    assert [each.name for each in place.status(handle).nodes] == ["server.0", "trainer.0"]
    command = brought(cloud.only_job().body, "aihc", s3_of_all)
    running = []
    port = free_port()
    for rank in range(2):
        said = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        clean = {"PATH": os.environ["PATH"], "HOME": environ["HOME"], "AIHC_JOB_NAME": "ctr", **said}
        running.append(
            subprocess.Popen(
                command,
                env=clean,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd="/",
                start_new_session=True,
            )
        )
    out = ends_of(running)
    assert [each.returncode for each in running] == [0, 0], out
    assert "trainer 0 of 1 saw PSERVER 0 of 1" in out[1], out


@pytest.mark.parametrize("name", ["pai", "aihc"])
def test_a_link_to_a_terminal(
    name: str,
    cloud: StandIn,
    s3_of_all: moto_server.S3Server,
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`umiak exec` without a command prints it; a command is refused with the reason, and a link that is none is not printed."""
    from umiak.cli.main import main

    place = made(name, cloud, s3_of_all, environ, tmp_path)
    for variable, text in {**environ, "XDG_STATE_HOME": str(tmp_path / "state")}.items():
        monkeypatch.setenv(variable, text)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "umiak.toml").write_text(settings_of(name, cloud, s3_of_all))

    def umiak(*words: str) -> tuple[int, str, str]:
        status = main(["exec", str(handle), *words])
        return (status, *capsys.readouterr())

    handle = place.submit(submission(place))
    status, out, err = umiak()
    assert (status, out) == (3, ""), err
    assert "UM-SUBMIT-391" in err
    cloud.only_job().word = "Running"
    for words, rank in (((), 0), (("--rank", "1"), 1), (("--node", "trainer.1"), 1)):
        status, out, err = umiak(*words)
        assert (status, out) == (0, f"wss://terminal.test/{pod_id(name, cloud, rank)}?token=t\n"), err
        assert f"trainer.{rank}: the link opens a shell" in err
    assert umiak("--rank", "7")[0] == 3
    status, out, err = umiak("--", "nvidia-smi")
    assert (status, out) == (3, "")
    assert "UM-SUBMIT-390" in err
    assert f"umiak exec {handle}" in err
    monkeypatch.setattr(type(place.api), "terminal", lambda *_: "\x1b[2J no link")
    status, out, err = umiak()
    assert (status, out) == (3, "")
    assert "UM-SUBMIT-492" in err
    assert "\x1b" not in err
    assert SECRET not in err


@pytest.mark.parametrize("name", ["bml"])
def test_the_commands(cloud: StandIn, s3_of_all: moto_server.S3Server, environ: dict[str, str], tmp_path: Path) -> None:
    """As a person does it, each command in a process of its own: the handle is all that they have in common."""
    work = tmp_path / "project"
    work.mkdir()
    (work / "train.py").write_text("print('hello')\n")
    (work / "umiak.toml").write_text(
        f'default_place = "lab"\n[place.lab]\nbackend = "bml"\nregion = "bj"\nendpoint = "{cloud.url}"\npoll = 0.01\n'
        f'store_endpoint = "{s3_of_all.environ["AWS_ENDPOINT_URL"]}"\nimage = "/team/paddle:2.6"\n{CLOUDS["bml"][1]}'
    )

    def umiak(*words: str) -> subprocess.CompletedProcess[str]:
        every = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(tmp_path / "state"), **environ}
        argv = [sys.executable, "-m", "umiak", *words]
        return subprocess.run(argv, cwd=work, env=every, capture_output=True, text=True, check=False)

    dry = umiak("submit", "--dry_run", "--", "train.py")
    assert dry.returncode == 0, dry.stderr
    assert '"start_cmd": "mkdir -p' in dry.stdout
    assert not cloud.requests
    done = umiak("submit", "--json", "--", "train.py")
    assert done.returncode == 0, done.stderr
    handle = f"bml://lab/{cloud.only_job().id}"
    assert handle in done.stdout
    assert "queued" in umiak("status", handle).stdout
    cloud.only_job().word, cloud.only_job().reason = "FAILED", "no image"
    waited = umiak("wait", handle)
    assert waited.returncode == 1, waited.stderr
    assert "no image" in umiak("status", handle).stdout
    assert "UM-SUBMIT-273" in umiak("logs", handle).stderr
    whole = "".join(each.stdout + each.stderr for each in (dry, done, waited))
    assert SECRET not in whole
