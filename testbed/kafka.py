"""Adapter: a real Kafka broker on loopback, which can be paused, stopped and started again with its data.

    with kafka.broker() as broker:
        broker.topic("clicks", partitions=2)
        broker.write("clicks", [b'{"user": 1}'], partition=0)
        broker.bootstrap                      127.0.0.1:12345, for clients without a password
        broker.secured                        another port, which asks for a password, with TLS: `broker.secured_settings`

One process is broker and controller, without ZooKeeper. Its jars come from Maven, once, and are kept with a formatted disk in the user's cache
(`python -m testbed.prepare`). The broker takes about three seconds of a core from its start to its end.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed import ports, processes, workspace

VERSION = "4.0.0"
TOOLS = {"java": "default-jre-headless", "mvn": "maven"}
"""Programs, and the Debian package of each."""
START_TIMEOUT_S = 240
PORTS_TRIED = 10
USER = "trainer"
_POM = f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>testbed</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
  </dependencies>
</project>
"""
_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:CICompilerCount=1", "-Xmx192m")
"""A process that lives for seconds is not worth the better compiler."""
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL
inter.broker.listener.name=PLAIN
sasl.enabled.mechanisms=PLAIN
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
num.network.threads=1
num.io.threads=2
log.cleaner.enable=false
auto.create.topics.enable=false
"""


_SILENT = logging.getLogger("testbed.kafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_SILENT.setLevel(logging.CRITICAL + 1)


class KafkaError(Exception):
    """The broker could not be had, or did not start."""


@functools.cache
def available() -> str | None:
    """Why there can be no broker on this machine, or `None` where there can."""
    if processes.program("java") is None:
        return "Kafka needs Java: apt-get install default-jre-headless"
    return None if _directory().exists() else "the testbed's Kafka is not there: python -m testbed.prepare"


def build() -> None:
    """Fetch the jars and format a disk; a second caller waits for the first. `KafkaError` if that can't be done."""
    target = _directory()
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / "kafka.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return
        print(f"testbed: fetching Kafka {VERSION} from Maven, once: 40 MB", file=sys.stderr)
        unfinished = Path(tempfile.mkdtemp(prefix="kafka-unfinished-", dir=target.parent))
        try:
            _fetch(unfinished)
            _format(unfinished)
            unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    available.cache_clear()


@contextlib.contextmanager
def broker() -> Iterator[Broker]:
    """Run a broker that is ready for requests."""
    with workspace.opened("kafka") as work:
        made = Broker(work)
        made.start()
        yield made


class Broker:
    """One broker; see `broker()`. Its ports and its data outlast `stop`."""

    def __init__(self, work: workspace.Workspace) -> None:
        self._work = work
        self._process: subprocess.Popen[str] | None = None
        self._ports: list[int] = []
        self._password = os.urandom(8).hex()
        self._certificates = work.path / "ca.pem"
        self._admin: Any = None
        self._producer: Any = None

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def secured(self) -> str:
        """Where clients connect with a password and TLS."""
        return f"127.0.0.1:{self._ports[1]}"

    @property
    def secured_settings(self) -> dict[str, str]:
        """What a client is told then, but for the password."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "ssl.ca.location": str(self._certificates),
        }

    @property
    def password(self) -> str:
        return self._password

    # ---- the process

    def start(self) -> None:
        """Start it, on the ports and with the data that it had before, and wait until it takes requests."""
        if not self._ports:
            shutil.copytree(_directory() / "disk", self._work.path / "data")
            self._write_certificates()
        for _ in range(PORTS_TRIED):
            chosen = self._ports or ports.free_ports(3)
            if self._start_on(chosen):
                self._ports = chosen
                return
        raise KafkaError("Kafka found no free ports")

    def stop(self) -> None:
        """End it in order. Started again it takes ten seconds or more, until its controller lets it back."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_TIMEOUT_S)
            self._process = None

    def pause(self) -> None:
        """Let it hang: it accepts connections and answers nothing."""
        assert self._process is not None
        processes.pause(self._process)

    def resume(self) -> None:
        assert self._process is not None
        processes.resume(self._process)

    # ---- what is in it

    def topic(self, name: str, partitions: int = 1, **settings: str) -> None:
        """Make a topic."""
        from confluent_kafka.admin import NewTopic

        config = {key.replace("_", "."): each for key, each in settings.items()}
        made = self._admins().create_topics([NewTopic(name, partitions, 1, config=config)])
        made[name].result(START_TIMEOUT_S)

    def delete_topic(self, name: str) -> None:
        self._admins().delete_topics([name])[name].result(START_TIMEOUT_S)

    def forget(self, name: str, ends: Mapping[int, int]) -> None:
        """Delete the messages before these offsets, as retention does."""
        from confluent_kafka import TopicPartition

        wanted = [TopicPartition(name, partition, offset) for partition, offset in ends.items()]
        for each in self._admins().delete_records(wanted).values():
            each.result(START_TIMEOUT_S)

    def write(
        self, topic: str, messages: Sequence[bytes | None], *, partition: int, times_ms: Sequence[int] | None = None
    ) -> None:
        """Write messages to a partition, and wait until they are there."""
        from confluent_kafka import Producer

        if self._producer is None:
            self._producer = Producer(_client(self.bootstrap, linger_ms=1))
        for number, message in enumerate(messages):
            while True:
                try:
                    time_ms = times_ms[number] if times_ms else 0
                    self._producer.produce(topic, message, partition=partition, timestamp=time_ms)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        if self._producer.flush(START_TIMEOUT_S):
            raise KafkaError(f"messages could not be written to {topic}")

    def transaction(self, topic: str, messages: Sequence[bytes], *, partition: int, aborted: bool = False) -> None:
        """Write messages in a transaction, whose marker takes an offset of its own."""
        from confluent_kafka import Producer

        producer = Producer({**_client(self.bootstrap), "transactional.id": os.urandom(8).hex()})
        producer.init_transactions(START_TIMEOUT_S)
        producer.begin_transaction()
        for message in messages:
            producer.produce(topic, message, partition=partition)
        producer.flush(START_TIMEOUT_S)
        (producer.abort_transaction if aborted else producer.commit_transaction)(START_TIMEOUT_S)

    def close(self) -> None:
        """Let clients of this process go."""
        self._admin = self._producer = None

    # ---- helpers

    def _admins(self) -> Any:
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient(_client(self.bootstrap))
        return self._admin

    def _start_on(self, chosen: Sequence[int]) -> bool:
        """Whether the ports were free; anything else that goes wrong is an error."""
        plain, secured, controller = chosen
        users = f'username="{USER}" password="{self._password}" user_{USER}="{self._password}"'
        more = {
            "listeners": f"PLAIN://127.0.0.1:{plain},SECURED://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAIN://127.0.0.1:{plain},SECURED://127.0.0.1:{secured}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(self._work.path / "data"),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._work.path / "broker.pem"),
            "listener.name.secured.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
            f"required {users};",
        }
        settings = self._work.path / "broker.properties"
        settings.write_text(_SETTINGS + "".join(f"{key}={each}\n" for key, each in more.items()), encoding="utf-8")
        log = self._work.path / "broker.log"
        log.write_text("")
        self._process = self._work.popen(_java(_directory(), "kafka.Kafka", str(settings)), log=log.name)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                told = log.read_text(errors="replace")
                if "Address already in use" in told or not self._ports:
                    return False
                raise KafkaError(f"Kafka ended with status {self._process.returncode}: {told[-2000:]}")
            if _answers(f"127.0.0.1:{plain}"):
                return True
        self._process.kill()
        raise KafkaError(f"Kafka did not take requests within {START_TIMEOUT_S} s: {log.read_text()[-2000:]}")

    def _write_certificates(self) -> None:
        import trustme
        from cryptography.hazmat.primitives import serialization

        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self._certificates))
        own = authority.issue_cert("127.0.0.1")
        key = serialization.load_pem_private_key(own.private_key_pem.bytes(), None)
        # Kafka reads this form alone.
        plain = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        chain = b"".join(each.bytes() for each in own.cert_chain_pems)
        (self._work.path / "broker.pem").write_bytes(plain + chain)


def _client(bootstrap: str, **settings: Any) -> dict[str, Any]:
    named = {key.replace("_", "."): each for key, each in settings.items()}
    return {"bootstrap.servers": bootstrap, "logger": _SILENT, **named}


def _answers(bootstrap: str) -> bool:
    import socket

    host, _, port = bootstrap.partition(":")
    with contextlib.closing(socket.socket()) as one:
        if one.connect_ex((host, int(port))) != 0:
            time.sleep(0.05)
            return False
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        return bool(AdminClient(_client(bootstrap)).list_topics(timeout=5).brokers)
    except KafkaException:
        return False


def _java(home: Path, program: str, *words: str) -> list[str]:
    return [processes.program("java") or "java", *_JAVA, "-cp", f"{home / 'jars'}/*", program, *words]


@functools.cache
def _directory() -> Path:
    """Where the jars are when they are there; named after all that goes into them."""
    content = hashlib.sha256(f"{_POM}{_SETTINGS}".encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "umiak-testbed"
    return cache / f"kafka-{content}"


def _fetch(into: Path) -> None:
    (into / "pom.xml").write_text(_POM, encoding="utf-8")
    maven = processes.program("mvn")
    if maven is None:
        raise KafkaError("Kafka's jars come with Maven: apt-get install maven")
    _done([maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"], into)


def _format(into: Path) -> None:
    settings = into / "format.properties"
    listeners = "listeners=PLAIN://127.0.0.1:1,CONTROLLER://127.0.0.1:2\ncontroller.quorum.voters=1@127.0.0.1:2\n"
    settings.write_text(f"{_SETTINGS}{listeners}log.dirs={into / 'disk'}\n", encoding="utf-8")
    words = ("format", "-t", "dGVzdGJlZC1icm9rZXItMQ", "-c", str(settings))
    _done(_java(into, "kafka.tools.StorageTool", *words), into)


def _done(command: Sequence[str], where: Path) -> None:
    told = subprocess.run(
        command,
        cwd=where,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if told.returncode != 0:
        raise KafkaError(f"{command[0]} ended with status {told.returncode}: {told.stdout[-2000:]}")
