"""A worker that binds its port, and in the first generation finds that somebody else has it."""

import os
import socket

import telling

port = int(os.environ["UMIAK_ENDPOINT"].rpartition(":")[2])
if os.environ["UMIAK_GENERATION"] == "1" and telling.RANK == "1":
    thief = socket.create_server(("127.0.0.1", port))
server = socket.create_server(("127.0.0.1", port))
telling.live()
