"""The fixtures that all tests share: real clusters on this machine."""

from testbed.pytest_support import etcd_server, network

__all__ = ["etcd_server", "network"]
