"""No worker at all: a program that has taken a port and greets anyone who comes, or hangs up: `other_program.py PORT GREETING`."""

import socket
import sys

server = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
connections = []
while True:
    connection, _ = server.accept()
    if sys.argv[2] == "hang up":
        connection.close()
        continue
    connection.sendall(sys.argv[2].encode())
    connections.append(connection)
