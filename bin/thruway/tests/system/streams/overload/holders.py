"""Connections whose clients stop acknowledging.

serve ADDRESS PORT         sends to whoever connects, as much as finds room.
hold ADDRESS PORT COUNT    opens COUNT connections; each reads for a while, so that its sender has a
                           large window, and is deaf from then on: its kernel gets nothing, so it
                           acknowledges nothing. Says "held" and how many, and opens one after the
                           other from then on.
"""

import ctypes
import resource
import selectors
import socket
import struct
import sys
import threading
import time

# Bytes that are read before.
WARM = 200_000
THREADS = 4
PAUSE_S = 0.02
# Longest time until it says so.
PATIENCE_S = 20
SO_ATTACH_FILTER = 26


def deafen(client):
    """Has the kernel drop all that comes, before TCP sees it: a filter that is `ret 0`."""
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
    program = struct.pack("HP", 1, ctypes.addressof(code))
    client.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def hold(to):
    """A connection that is held, or None."""
    client = socket.socket()
    client.settimeout(2)
    got = 0
    try:
        client.connect(to)
        while got < WARM:
            got += len(client.recv(65536)) or WARM
    except OSError:
        if got == 0:
            return None
    deafen(client)
    return client


def hold_all(to, count):
    held, lock = [], threading.Lock()
    end = time.monotonic() + PATIENCE_S

    def some():
        for _ in range(count // THREADS):
            if time.monotonic() > end:
                return
            client = hold(to)
            with lock:
                held.append(client)

    threads = [threading.Thread(target=some) for _ in range(THREADS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print("held", sum(client is not None for client in held), flush=True)
    while True:
        held.append(hold(to))
        time.sleep(PAUSE_S)


def serve(at):
    listener = socket.create_server(at, backlog=4096)
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    piece = b"." * 65536
    print("serving", flush=True)
    while True:
        for key, _ in ready.select():
            if key.fileobj is listener:
                client, _ = listener.accept()
                client.setblocking(False)
                ready.register(client, selectors.EVENT_WRITE)
                continue
            try:
                key.fileobj.send(piece)
            except BlockingIOError:
                pass
            except OSError:
                ready.unregister(key.fileobj)
                key.fileobj.close()


resource.setrlimit(resource.RLIMIT_NOFILE, (16384, 16384))
role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if role == "serve":
    serve((address, port))
else:
    hold_all((address, port), int(sys.argv[4]))
