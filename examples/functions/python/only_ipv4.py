"""Passes IPv4 packets on and drops all others: the shortest function in Python."""

import thruway_nf


def batch(packets):
    for packet in packets:
        if packet.data[12:14] != b"\x08\x00":
            packet.drop()
            packets.count("others")


thruway_nf.run(batch, name="only-ipv4", counters=["others"])
