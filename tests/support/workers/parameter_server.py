"""A parameter server or a trainer of one, as far as a launcher can tell. Arguments change what a role does.

--late      a server opens its port only when the file `open.RANK` is in the story
--stays     a server does not listen to SIGTERM
--idle      a server ends well at once
"""

import os
import signal
import socket
import sys
import time

import telling


def address(endpoint):
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def serve():
    if "--idle" in sys.argv:
        telling.tell("nothing to do")
        sys.exit(0)

    def asked_to_end(_number, _frame):
        telling.tell("asked to end")
        if "--stays" not in sys.argv:
            sys.exit(0)

    signal.signal(signal.SIGTERM, asked_to_end)
    while "--late" in sys.argv and not os.path.exists(os.path.join(telling.STORY, f"open.{telling.RANK}")):
        telling.beat()
        time.sleep(0.01)
    server = socket.create_server(("", address(os.environ["UMIAK_ENDPOINT"])[1]))
    server.settimeout(0.01)
    telling.tell("listens")
    return server


def turn_away(server):
    """Take calls and hang up."""
    try:
        server.accept()[0].close()
    except TimeoutError:
        pass


def obey(found):
    word, _, rest = found.partition(" ")
    if word == "exit":
        sys.exit(int(rest))
    if word == "signal":
        os.kill(os.getpid(), int(rest))


if telling.ROLE == "server":
    listening = serve()
    while True:
        telling.beat()
        turn_away(listening)
        own = os.path.join(telling.STORY, f"order.server.{telling.RANK}")
        if os.path.exists(own):
            obey(telling.live())
else:
    for each in os.environ["UMIAK_SERVERS"].split(","):
        socket.create_connection(address(each), timeout=10).close()
    telling.tell("all servers are there")
    obey(telling.live())
    telling.tell("done")
