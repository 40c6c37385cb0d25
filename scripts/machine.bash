# Sourced by ./check: whether the machine itself runs all the time. A virtual machine that its host
# gives no processor for a third of a second, again and again, makes tests with clocks fail.
# shellcheck shell=bash

# A share of the time (percent) above this is reported.
readonly STILL_MAX=10

# Notes in a file, each second, for how many milliseconds the machine has stood still, and out of
# how many. As a real-time process: load within the machine does not delay it. Where that is not
# allowed nothing is noted.
watch_machine() { # FILE
    rm -f "$1"
    python3 - "$1" <<'END' &
import os, sys, time
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
except PermissionError:
    sys.exit()
parent, path = os.getppid(), sys.argv[1]
begin = last = noted = time.monotonic()
still = 0.0
while os.getppid() == parent:
    time.sleep(0.01)
    now = time.monotonic()
    if now - last > 0.06:
        still += now - last
    last = now
    if now - noted > 1:
        noted = now
        with open(path + ".new", "w") as file:
            file.write(f"{still * 1000:.0f} {(now - begin) * 1000:.0f}\n")
        os.rename(path + ".new", path)
END
    watcher=$!
}

# Reports the share of time in which the machine stood still, if it is large.
stands_still() { # FILE
    local still=0 all=0
    read -r still all <"$1" 2>/dev/null
    [ "${all:-0}" -gt 0 ] && [ $((still * 100 / all)) -gt $STILL_MAX ] &&
        echo "the machine stood still for $((still / 1000)) of $((all / 1000)) s"
}
