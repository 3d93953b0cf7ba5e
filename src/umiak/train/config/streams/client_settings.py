"""Settings of Kafka's client that a config may give, and in which way. A decider.

problems_of({"sasl.password": "secret"})       one problem: it is a secret
problems_of({"sasl.password": "${PASSWORD}"})  none: the variable is looked up where a trainer connects, and nowhere else
"""

from __future__ import annotations

from umiak.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

OWN = {
    "bootstrap.servers": "brokers stand in data_path",
    "enable.auto.commit": "offsets are in the checkpoints",
    "enable.auto.offset.store": "offsets are in the checkpoints",
    "auto.offset.reset": "`start_from` says where a run begins",
    "enable.partition.eof": "it is always true here",
}
"""What is not a user's to give, and why."""
ALLOWED = (
    r"security\.protocol|sasl\.(?!kerberos\.kinit\.cmd).+|ssl\.(?!engine|providers).+|client\.(id|rack)|group\.id|isolation\.level"
    r"|fetch\..+|queued\..+|socket\..+|receive\.message\.max\.bytes|metadata\..+|reconnect\..+|broker\.address\.family|check\.crcs"
)
"""Others could load or run code, or turn a reader into something else."""
SECRETS = r"sasl\.password|sasl\.oauthbearer\.(config|client\.secret|assertion\..+)|ssl\.(key|keystore)\.(password|pem)"
VARIABLE = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"


@value
class SettingFault:
    """What is wrong with a setting."""

    what: str
    hint: str


def problems_of(settings: Mapping[str, str]) -> tuple[SettingFault, ...]:
    """What can't be given, or not in this way. No value is shown: it may be a secret."""
    import re  # here, so that a config without a topic is read without it

    problems = []
    for name, text in settings.items():
        if name in OWN:
            problems.append(SettingFault(what=f"{name} can't be set", hint=OWN[name]))
        elif re.fullmatch(ALLOWED, name) is None:
            hint = "docs/reference/streams.md names those that are passed on"
            problems.append(SettingFault(what=f"{name} is not passed on to the client", hint=hint))
        elif re.fullmatch(SECRETS, name) and re.fullmatch(VARIABLE, text) is None:
            hint = f"write `{name}: ${{KAFKA_PASSWORD}}`, and put the secret into that variable where trainers start"
            problems.append(SettingFault(what=f"{name} is a secret, and a config is no place for it", hint=hint))
    return tuple(problems)
