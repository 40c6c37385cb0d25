"""Sets the TTL of IPv4 packets, all of a batch at once, with numpy; its handler ``ttl`` is read and written."""

import numpy
import thruway_nf

ETHERNET = 14
TTL, CHECKSUM = ETHERNET + 8, ETHERNET + 10


class SetTtl:
    name = "set-ttl"
    counters = ["changed"]

    def __init__(self):
        self.ttl = 64

    def batch(self, batch):
        heads = batch.heads(ETHERNET + 20)
        is_ipv4 = (heads[:, 12] == 8) & (heads[:, 13] == 0) & (batch.lengths >= ETHERNET + 20)
        changed = is_ipv4 & (heads[:, TTL] != self.ttl)
        # RFC 1624, equation 3: the new checksum is ~(~old sum + ~old word + new word).
        words = heads[:, TTL].astype("uint32") << 8
        sums = heads[:, CHECKSUM].astype("uint32") << 8 | heads[:, CHECKSUM + 1]
        sums = (~sums & 0xFFFF) + (~words & 0xFF00) + (self.ttl << 8)
        # The word's lower half, the protocol, is the same before and after.
        sums += 0xFFFF - 0xFF00
        sums = (sums & 0xFFFF) + (sums >> 16)
        sums = ~((sums & 0xFFFF) + (sums >> 16)) & 0xFFFF
        heads[:, TTL] = numpy.where(changed, self.ttl, heads[:, TTL])
        heads[:, CHECKSUM] = numpy.where(changed, sums >> 8, heads[:, CHECKSUM])
        heads[:, CHECKSUM + 1] = numpy.where(changed, sums & 0xFF, heads[:, CHECKSUM + 1])
        batch.count("changed", int(changed.sum()))

    def read(self, handler, parameter):
        if handler != "ttl":
            raise ValueError(f"no handler '{handler}'")
        return self.ttl

    def write(self, handler, value):
        if handler != "ttl":
            raise ValueError(f"no handler '{handler}'")
        ttl = int(value)
        if not 1 <= ttl <= 255:
            raise ValueError(f"a TTL is from 1 to 255, not {ttl}")
        self.ttl = ttl


thruway_nf.run(SetTtl())
