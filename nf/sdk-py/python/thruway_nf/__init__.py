"""Isolated network functions of Thruway in Python: for prototypes.

A function is a callable that takes a batch of packets, or an object with a method ``batch``::

    import thruway_nf

    def batch(batch):
        for packet in batch:
            if packet.data[12:14] != b"\x08\x00":
                packet.drop()
                batch.count("others")

    thruway_nf.run(batch, name="only-ipv4", counters=["others"])

``run`` says which attributes and methods an object may have. Packets are copies, which are written
back when the callback returns: what it changes becomes true then. With numpy, ``Batch.heads`` gives the
first bytes of all packets as one array.
"""

from .thruway_nf_native import Batch, Context, Packet, Session, Start, run

__all__ = ["Batch", "Context", "Packet", "Session", "Start", "run"]
