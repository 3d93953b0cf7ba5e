"""Texts as people may see them: passwords in addresses are covered, and nothing steers a terminal. A decider."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_STEERING = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}


def inert(text: str) -> str:
    """The text with control characters spelled out, except tabs and ends of lines: a file must not be able to steer a terminal."""
    return text.translate(_STEERING)


def without_password(text: str) -> str:
    """The text of an address, with a user name and password in it covered."""
    scheme, separator, rest = text.rpartition("://")
    if "@" not in rest:
        return text
    return f"{scheme}{separator}***@{rest.rpartition('@')[2]}"


def without_passwords(data: Any) -> Any:
    """Plain data, with what is in front of the ``@`` of every URL in it covered."""
    if isinstance(data, dict):
        return {key: without_passwords(each) for key, each in data.items()}
    if isinstance(data, (list, tuple)):
        return [without_passwords(each) for each in data]
    return without_password(data) if isinstance(data, str) and "://" in data else data
