"""A worker that adds up numbers with all others over plain sockets, and writes what it found into the directory it is given.

Trainers listen at their own endpoints and send their rank + 1 to everybody. If there are servers, each trainer also sends its
number to each of them, and they add up until they are asked to end.
"""

import json
import os
import signal
import socket
import sys
import time


def address(endpoint):
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def told(name):
    return os.environ.get(name, "").split(",") if os.environ.get(name) else []


def send(endpoint, number):
    while not sent(endpoint, number):
        time.sleep(0.01)


def sent(endpoint, number):
    try:
        with socket.create_connection(address(endpoint), timeout=5) as connection:
            connection.sendall(b"%d\n" % number)
    except OSError:
        return False
    return True


def receive(server):
    connection, _ = server.accept()
    with connection, connection.makefile() as lines:
        return int(lines.readline() or 0)  # a launcher that looks whether somebody listens says nothing


def write():
    path = os.path.join(sys.argv[1], f"{role}.{rank}.json")
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(f"{path}.new", path)


def asked_to_end(_number, _frame):
    write()
    sys.exit(0)


role, rank = os.environ["UMIAK_ROLE"], int(os.environ["UMIAK_RANK"])
servers, trainers = told("PADDLE_PSERVERS_IP_PORT_LIST"), told("PADDLE_TRAINER_ENDPOINTS")
found = {"host": socket.gethostname(), "world": len(trainers), "servers": len(servers), "sum": 0}
if role == "server":
    signal.signal(signal.SIGTERM, asked_to_end)
    with socket.create_server(("", address(servers[rank])[1])) as listening:
        while True:
            found["sum"] += receive(listening)
for each in servers:
    send(each, rank + 1)
with socket.create_server(("", address(trainers[rank])[1])) as listening:
    for each in trainers:
        send(each, rank + 1)
    found["sum"] = sum(receive(listening) for _ in trainers)
write()
