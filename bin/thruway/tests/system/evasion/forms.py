"""What the expressions in cases may use: packed, chunked and otherwise dressed-up bytes."""

import gzip as _gzip
import zlib as _zlib

WORD = "forbidden"


def _bytes(text):
    return text.encode("latin-1") if isinstance(text, str) else text


def gzip(text):
    return _gzip.compress(_bytes(text))


def zlib(text):
    return _zlib.compress(_bytes(text))


def deflate(text):
    packer = _zlib.compressobj(wbits=-15)
    return packer.compress(_bytes(text)) + packer.flush()


def brotli(text):
    """One metablock of bytes as they are (RFC 7932 section 9.2), and the empty last one."""
    text = _bytes(text)
    header = ((len(text) - 1) << 3 | 1 << 19) << 1
    return header.to_bytes(3, "little") + text + b"\x03"


def zstd(*parts, window=0x58, descriptor=0, fields=None):
    """A frame with a block of each part, as it is; of (BYTE, COUNT), as one that repeats (RFC 8878)."""
    out = b"\x28\xb5\x2f\xfd" + bytes([descriptor]) + (bytes([window]) if fields is None else fields)
    for at, part in enumerate(parts):
        last = at + 1 == len(parts)
        repeats = isinstance(part, tuple)
        text, size = (_bytes(part[0]), part[1]) if repeats else (_bytes(part), len(_bytes(part)))
        out += (size << 3 | (2 if repeats else 0) | last).to_bytes(3, "little") + text
    return out


def skipped(text):
    """A frame that decoders leave out."""
    text = _bytes(text)
    return b"\x50\x2a\x4d\x18" + len(text).to_bytes(4, "little") + text


def chunked(*parts, extension="", trailer=""):
    """A chunk of each part."""
    parts = [_bytes(part) for part in parts]
    chunks = [b"%x%s\r\n%s\r\n" % (len(part), _bytes(extension), part) for part in parts]
    return b"".join(chunks) + b"0" + _bytes(extension) + b"\r\n" + _bytes(trailer) + b"\r\n"


def utf16(text):
    return text.encode("utf-16")


def post(fields, body, line="POST / HTTP/1.1"):
    """A request."""
    return _bytes(f"{line}\r\nHost: h\r\n{fields}\r\n") + _bytes(body)


def put(fields, body):
    """A request with a Content-Length."""
    return post(f"{fields}Content-Length: {len(_bytes(body))}\r\n", body)


def answer(fields, body, line="HTTP/1.1 200 OK"):
    """A response that ends with the connection."""
    return _bytes(f"{line}\r\nConnection: close\r\n{fields}\r\n") + _bytes(body)


def page(fields, body):
    """A response with a Content-Length."""
    return answer(f"{fields}Content-Length: {len(_bytes(body))}\r\n", body)


def cat(*parts):
    return b"".join(_bytes(part) for part in parts)


FORMS = {name: value for name, value in globals().items() if not name.startswith("_")}
