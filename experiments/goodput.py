"""Clients of a web server, and what becomes of them in a flood: a part of netvm-18.npf.

Threads fetch an object again and again. The times of all answers, on this machine's clock, give what is
printed: the goodput of each tenth of a second as a part of that before the flood, and how soon the
flood was over for them. Lines are those that npf reads.
"""

import argparse
import http.client
import socket
import threading
import time

# The goodput counts as restored when half a second has this part of what it was, and each tenth of a
# second in it that part: what was held up comes at once then.
RESTORED, EACH = 0.95, 0.75
# Without an answer for this long, a client begins anew, seconds.
PATIENCE = 5


def ask(host, over, times):
    """Fetches until it is over; the time of each answer, and how many attempts failed."""
    failed, connection = 0, None
    while not over.is_set():
        try:
            connection = connection or http.client.HTTPConnection(host, timeout=PATIENCE)
            connection.request("GET", "/object")
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise OSError(answer.status)
            times.append(time.monotonic())
        except (OSError, http.client.HTTPException):
            failed += 1
            connection.close()
            connection = None
            time.sleep(0.01)
    return failed


def write(control, handler):
    """Writes a handler of the program that sends the flood (ControlSocket's protocol)."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(control)
        file = stream.makefile("rw")
        file.readline()
        file.write(f"WRITE {handler}\r\n")
        file.flush()
        answer = file.readline()
        if not answer.startswith("200"):
            raise SystemExit(f"{handler}: {answer.strip()}")


def rate(times, begin, end):
    return sum(begin <= at < end for at in times) / (end - begin)


def report(times, start, flood, end, after):
    """Prints what the times of answers say of a flood from `flood` to `end`."""
    usual = rate(times, start + 0.5, flood)
    if not usual:
        raise SystemExit("no answers before the flood")

    def part(begin, length):
        return rate(times, begin, begin + length) / usual

    steps = [flood + step / 100 for step in range(int((end - flood) * 100) - 50)]
    worst = min(steps[:200], key=lambda at: part(at, 0.1))

    def is_restored(at):
        tenths = [part(at + number / 10, 0.1) for number in range(5)]
        return part(at, 0.5) >= RESTORED and min(tenths) >= EACH

    restored = next((at for at in steps if at >= worst and is_restored(at)), None)
    print(f"RESULT-USUAL_PER_SECOND {usual:.1f}")
    print(f"RESULT-WORST_PERCENT {100 * part(worst, 0.1):.3f}")
    if restored is None:
        print("the goodput was not restored while the flood lasted")
    else:
        print(f"RESULT-RESTORED_MS {1000 * (restored - flood):.0f}")
        print(f"RESULT-THEN_PERCENT {100 * part(restored, end - restored):.2f}")
    print(f"RESULT-AFTER_PERCENT {100 * part(end, after - 0.5):.2f}")
    for step in range(int((end + after - start) * 10)):
        at = start + step / 10
        print(f"time-{step / 10:.1f}-RESULT-GOODPUT_PERCENT {100 * part(at, 0.1):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("host")
    parser.add_argument("control", help="control socket of the program that sends the flood")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--before", type=float, default=3.0, help="seconds before the flood")
    parser.add_argument("--during", type=float, default=6.0, help="seconds of flood")
    parser.add_argument("--after", type=float, default=4.0, help="seconds after the flood")
    options = parser.parse_args()
    over, lists = threading.Event(), [[] for _ in range(options.clients)]
    threads = [threading.Thread(target=ask, args=(options.host, over, times)) for times in lists]
    for thread in threads:
        thread.start()
    try:
        start = time.monotonic()
        time.sleep(options.before)
        flood = time.monotonic()
        write(options.control, "s.active true")
        time.sleep(options.during)
        end = time.monotonic()
        write(options.control, "s.active false")
        time.sleep(options.after)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    report(sorted(at for times in lists for at in times), start, flood, end, options.after)


if __name__ == "__main__":
    main()
