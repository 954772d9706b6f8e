"""What the host says to distrun: packets of CBOR with descriptors, and the frames of ranks (protocol/*.h)."""
import json
import os
import socket
import struct
import time

PACKET_BYTES_MAX = 1 << 20
FRAME_MARK = 0xD157F4A7  # As in rank_frames.cc.


def to_cbor(value):
    """CBOR of what messages contain."""
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, str):
        text = value.encode("utf-8", "replace")
        return _head(3, len(text)) + text
    if isinstance(value, dict):
        return _head(5, len(value)) + b"".join(to_cbor(key) + to_cbor(value[key]) for key in value)
    raise TypeError(f"{type(value)} in a message")


def _head(kind, number):
    for size, code, form in ((0xFF, 24, ">BB"), (0xFFFF, 25, ">BH"), (0xFFFFFFFF, 26, ">BI"), (1 << 64, 27, ">BQ")):
        if number < 24:
            return bytes([kind << 5 | number])
        if number <= size:
            return struct.pack(form, kind << 5 | code, number)
    raise ValueError(f"{number} in a message")


def from_cbor(data):
    """The value of one CBOR item; byte strings stay bytes."""
    value, rest = _item(data)
    if rest:
        raise ValueError("a message is followed by other bytes")
    return value


def _item(data):
    kind, number, data = data[0] >> 5, data[0] & 31, data[1:]
    if kind == 7:
        return {20: False, 21: True, 22: None}[number], data
    if number >= 24:
        size = 1 << (number - 24)
        number, data = int.from_bytes(data[:size], "big"), data[size:]
    if kind == 0:
        return number, data
    if kind == 1:
        return -1 - number, data
    if kind in (2, 3):
        return data[:number] if kind == 2 else data[:number].decode(), data[number:]
    items = []
    for _ in range(number * (2 if kind == 5 else 1)):
        item, data = _item(data)
        items.append(item)
    return (dict(zip(items[::2], items[1::2])) if kind == 5 else items), data


class Channel:
    """The socket to distrun."""

    def __init__(self, descriptor):
        self._socket = socket.socket(fileno=descriptor)

    def fileno(self):
        return self._socket.fileno()

    def send(self, message, descriptors=()):
        try:
            socket.send_fds(self._socket, [to_cbor(message)], list(descriptors))
        except BrokenPipeError:
            os._exit(0)  # distrun has exited.

    def receive(self):
        """A message and its descriptors; None at the end."""
        packet, descriptors, _, _ = socket.recv_fds(self._socket, PACKET_BYTES_MAX, 16)
        if not packet:
            return None
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        return from_cbor(packet), descriptors

    def close(self):
        self._socket.close()


def microseconds_now():
    return time.time_ns() // 1000


def failure_frame(failure):
    return {"frame": "failure", "file": failure.get("file", ""), "line": failure.get("line", 0),
            "message": failure["message"], "at": failure.get("at") or microseconds_now()}


def skip_frame(reason):
    return {"frame": "skip", "reason": reason}


def no_collectives():
    return {"counted": [], "stretches": [], "is_whole": True, "operations": [], "operations_left_out": 0}


def place_frame(text, collectives):
    return {"frame": "place", "text": text, "collectives": collectives}


def collective_frame(text):
    return {"frame": "collective", "text": text}


def done_frame(collectives):
    return {"frame": "done", "assertions": 1, "collectives": collectives}


def write_frame(descriptor, frame):
    for text in ("message", "reason", "text"):
        if text in frame:
            frame[text] = frame[text][:300_000].encode("utf-8", "replace").decode()
    payload = json.dumps(frame).encode()
    data = struct.pack("=II", FRAME_MARK, len(payload)) + payload
    while data:
        data = data[os.write(descriptor, data):]
