"""What bytes of HTTP may be to whoever receives them."""

import posixpath
import re
import zlib
from urllib.parse import unquote_to_bytes


def members(data, bits):
    """What some bytes unpack to, and those behind them."""
    out = b""
    while data:
        try:
            unpacker = zlib.decompressobj(wbits=bits)
            out += unpacker.decompress(data, 1 << 20)
        except zlib.error:
            break
        data = unpacker.unused_data
    return out


def dechunked(data):
    """Data of chunks, with whatever may stand for a size."""
    out = b""
    while match := re.match(rb"[\r\n]*[0-9a-fA-F]+[^\r\n]*\r?\n", data):
        size = int(re.match(rb"[\r\n]*([0-9a-fA-F]+)", match[0])[1], 16)
        data = data[match.end() :]
        out, data = out + data[:size], data[size:]
    return out


def readings(data):
    """What receivers may take bytes for: with and without chunks, packed and unpacked; and the paths of
    requests, as Python's http.server looks for files."""
    found = [data]
    for start in [match.end() for match in re.finditer(rb"\n\r?\n", data)]:
        for body in (data[start:], dechunked(data[start:])):
            found += [body, *(members(body, bits) for bits in (31, 15, -15))]
    for target in re.findall(rb"[A-Z]+[ \t]+(\S+) HTTP/1", data):
        path = target.partition(b"://")[2].partition(b"/")[2] if b"://" in target else target
        path = unquote_to_bytes(path.partition(b"?")[0])
        found.append(b"path " + posixpath.normpath(path))
    return b"\n".join(found)
