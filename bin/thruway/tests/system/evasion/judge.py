"""The server, on the kernel's own stack: keeps what clients sent, sends what cases say.

    judge.py SOCKET CASES...

Port 7000 of both address families takes anything; the socket at the path SOCKET says, for a client's
port, what came from there; port 8080 answers a request for /NAME by the `send` steps of that case.
"""

import json
import socket
import sys
import threading
import time

from forms import FORMS
from readings import readings

GOT, DONE = {}, {}


def take(client, port):
    client.settimeout(6)
    GOT[port] = b""
    try:
        while data := client.recv(65536):
            GOT[port] += data
    except OSError:
        pass
    client.close()
    DONE[port] = True


def accept(family, port, serve):
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    server.bind(port if family == socket.AF_UNIX else ("", port))
    server.listen(512)
    while True:
        client, address = server.accept()
        key = str(address[1]) if address else ""
        threading.Thread(target=serve, args=(client, key), daemon=True).start()


def tell(client, _):
    """Once the connection is over, or nothing more comes."""
    port = client.makefile().readline().strip()
    limit = time.monotonic() + 7
    while port in GOT and port not in DONE and time.monotonic() < limit:
        time.sleep(0.02)
    client.sendall(json.dumps(readings(GOT.get(port, b""))[:1 << 20].hex()).encode() + b"\n")
    client.close()


def scripts(files):
    found, name = {}, None
    for file in files:
        for line in open(file, encoding="utf-8"):
            line = line.strip()
            if line.startswith("case "):
                name = line[5:]
                found[name] = []
            elif line.startswith(("send ", "pause ")):
                found[name].append(line)
    return found


def answer(client, _):
    try:
        client.settimeout(4)
        request = b""
        while b"\r\n\r\n" not in request:
            request += client.recv(65536) or exit()
        for line in SCRIPTS[request.split()[1][1:].decode()]:
            verb, _, rest = line.partition(" ")
            if verb == "pause":
                time.sleep(float(rest.partition("=")[2]))
                continue
            data = eval(rest, {"__builtins__": {}}, FORMS)
            client.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        client.shutdown(socket.SHUT_WR)
        client.recv(65536)
    except (OSError, SystemExit, KeyError):
        pass
    client.close()


SCRIPTS = scripts(sys.argv[2:])
for wanted in [
    (socket.AF_INET, 7000, take),
    (socket.AF_INET6, 7000, take),
    (socket.AF_UNIX, sys.argv[1], tell),
    (socket.AF_INET, 8080, answer),
]:
    threading.Thread(target=accept, args=wanted, daemon=True).start()
print("ready", flush=True)
while True:
    time.sleep(60)
