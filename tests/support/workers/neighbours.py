"""A worker that listens at its own endpoint and ends once it has reached all others at theirs."""

import os
import socket
import time

import telling


def address(endpoint):
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


own = address(os.environ["PADDLE_CURRENT_ENDPOINT"])
everybody = [address(each) for each in os.environ["PADDLE_TRAINER_ENDPOINTS"].split(",")]
server = socket.create_server(own, family=socket.AF_INET6 if ":" in own[0] else socket.AF_INET)
for one in everybody:
    while True:
        try:
            socket.create_connection(one, timeout=5).close()
            break
        except OSError:
            time.sleep(0.01)
telling.tell("reached all")
# Nobody may close its door before everybody has come.
for _ in everybody:
    server.accept()
