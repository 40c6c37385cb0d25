"""All that a function in Python can do, by the first byte of each packet."""

import thruway_nf


class Everything:
    name = "everything"
    outputs = 2
    scratch_len = 8
    counters = ["sessions", "ticks", "level", "restarted"]

    def start(self, start):
        self.left = 3
        self.text = f"{start.inputs} {start.outputs} {start.restarted} {start.roles}"
        if start.restarted:
            start.count("restarted")
        self.ticking = start.every(0.01)

    def batch(self, batch):
        for packet in batch:
            if packet.scratch is not None:
                # The packets of the session so far, this one included.
                packet.scratch[0] += 1
                packet.data[-1] = packet.scratch[0]
            match packet.data[0]:
                case 1:
                    packet.drop()
                case 2:
                    packet.output = 1
                case 3:
                    packet.push(b"front")
                case 4:
                    packet.pull(4)
                case 5:
                    packet.data += b"end"
                case 6:
                    packet.emit(1, b"child of " + bytes(packet))
                case 7:
                    packet.drop()
                    packet.emit(0, b"instead")
                case 8:
                    packet.data += bytes(70_000)
                case 9:
                    batch.level("level", len(packet))
                case 10:
                    raise RuntimeError("a packet that it does not like")

    def new_session(self, session):
        session.count("sessions")

    def timer(self, context, number):
        assert number == self.ticking
        context.count("ticks")
        self.left -= 1
        if self.left == 0:
            context.cancel(number)
            context.inject(1, b"three ticks")

    def read(self, handler, parameter):
        return f"{handler} {parameter} {self.text}"

    def write(self, handler, value):
        raise ValueError(f"{handler} is not {value}")

    def drain(self, context):
        context.inject(1, b"last words")


thruway_nf.run(Everything())
