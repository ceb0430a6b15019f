#!/usr/bin/env python3
"""The smallest control element (CE) that a weir forwarding element (FE) talks to: RFC 5810 over TCP.

It takes one FE, reads and sets components by their IDs, and ends the association. Only the standard library is needed.
It proves nothing: the FE needs `transport = "tcp_udp"` and `insecure = true` for it.

    forces_ce.py --listen 127.0.0.1:6704 get 1.1.3
    forces_ce.py --listen 127.0.0.1:6704 set 16187650.1.21 text "20 Mbit" get 16187650.1.21

A path is CLASS.INSTANCE.COMPONENT, with further IDs below tables and structures. `weir list lfb --xml` has the IDs
and types: 1.1.3 is the FE's name (FEObject); 16187650 is 0x00f70102, the ports of weir, and 21 the rate of one, a text.
"""

import argparse
import socket
import struct
import sys

SETUP, TEARDOWN, CONFIG, QUERY, EVENT, REDIRECT, HEARTBEAT = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x0F
SETUP_RESPONSE, CONFIG_RESPONSE, QUERY_RESPONSE = 0x11, 0x13, 0x14
LFB_SELECT, PATH_DATA, FULL_DATA, SPARSE_DATA, RESULT, EXTENDED = 0x1000, 0x0110, 0x0112, 0x0113, 0x0114, 0x0118
AS_RESULT, AS_REASON = 0x0010, 0x0011
SET, SET_RESPONSE, GET, GET_RESPONSE = 1, 3, 7, 9
ALWAYS_ACK, ALL_OR_NONE = 3 << 30, 1 << 22
CE_ID = 0x40000001


def tlv(kind, value):
    """Type, length without the padding, value, padding to four octets (RFC 5810, 6.2)."""
    return struct.pack(">HH", kind, 4 + len(value)) + value + bytes(-len(value) % 4)


def tlvs(data):
    """The TLVs of a value."""
    while len(data) >= 4:
        kind, length = struct.unpack(">HH", data[:4])
        if not 4 <= length <= len(data):
            raise ValueError(f"a TLV of length {length} in {len(data)} octets")
        yield kind, data[4:length]
        data = data[length + -length % 4:]


def path_data(ids, content=b""):
    head = struct.pack(">HH", 0, len(ids)) + b"".join(struct.pack(">I", i) for i in ids)
    return tlv(PATH_DATA, head + content)


def select(path, operation, content=b""):
    class_id, instance, *ids = path
    body = struct.pack(">II", class_id, instance) + tlv(operation, path_data(ids, content))
    return tlv(LFB_SELECT, body)


class Peer:
    """One FE on one connection."""

    def __init__(self, connection):
        self.connection, self.fe, self.correlator = connection, 0, 0

    def send(self, kind, body=b"", flags=0, correlator=0):
        words = (24 + len(body)) // 4
        header = struct.pack(">BBHIIQI", 0x10, kind, words, CE_ID, self.fe, correlator, flags | 1 << 27)
        self.connection.sendall(header + body)

    def octets(self, count):
        data = b""
        while len(data) < count:
            more = self.connection.recv(count - len(data))
            if not more:
                sys.exit("the FE has closed the connection")
            data += more
        return data

    def receive(self):
        """The next message: type, source, correlator, body."""
        header = self.octets(24)
        version, kind, words, source, _, correlator, _ = struct.unpack(">BBHIIQI", header)
        if version >> 4 != 1 or words < 6:
            sys.exit("this is not ForCES")
        return kind, source, correlator, self.octets(words * 4 - 24)

    def associate(self):
        kind, source, correlator, _ = self.receive()
        if kind != SETUP:
            sys.exit(f"an FE begins with an Association Setup, not with a message of type {kind:#x}")
        self.fe = source
        self.send(SETUP_RESPONSE, tlv(AS_RESULT, struct.pack(">I", 0)), correlator=correlator)

    def ask(self, kind, body, flags=0):
        """Sends a request and returns the content of the first path of its answer: type and value."""
        self.correlator += 1
        self.send(kind, body, flags, self.correlator)
        while True:
            answer, _, correlator, body = self.receive()
            if correlator == self.correlator and answer in (CONFIG_RESPONSE, QUERY_RESPONSE):
                break
        _, selected = next(tlvs(body))
        _, operation = next(tlvs(selected[8:]))
        _, path = next(tlvs(operation))
        (ids,) = struct.unpack(">H", path[2:4])
        return next(tlvs(path[4 + 4 * ids:]), (0, b""))


FORMS = {"u8": ">B", "u16": ">H", "u32": ">I", "u64": ">Q", "f64": ">d"}


def value_of(form, text):
    if form == "text":
        return text.encode()
    if form == "flag":
        return bytes([text == "true"])
    number = float(text) if form == "f64" else int(text, 0)
    return struct.pack(FORMS[form], number)


def shown(kind, value):
    """A content as text: it depends on the class what the octets mean."""
    if kind in (RESULT, EXTENDED):
        code = value[0] if kind == RESULT else struct.unpack(">I", value[:4])[0]
        cause = value[4:].rstrip(b"\0").decode(errors="replace") if kind == EXTENDED else ""
        return f"result {code:#04x} {cause}".strip()
    if value and all(32 <= octet < 127 for octet in value):
        return f"{value.hex()} {value.decode()!r}"
    return value.hex()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--listen", default="127.0.0.1:6704", help="address and port of the CE")
    parser.add_argument("words", nargs="+", help="get PATH | set PATH FORM VALUE, any number of them")
    arguments = parser.parse_args()
    address, port = arguments.listen.rsplit(":", 1)
    words = iter(arguments.words)
    with socket.create_server((address.strip("[]"), int(port))) as server:
        server.settimeout(30)
        connection, _ = server.accept()
    connection.settimeout(10)
    peer = Peer(connection)
    peer.associate()
    print(f"associated with FE {peer.fe:#010x}")
    for word in words:
        path = [int(part, 0) for part in next(words).split(".")]
        if word == "get":
            answer = peer.ask(QUERY, select(path, GET))
        else:
            content = tlv(FULL_DATA, value_of(next(words), next(words)))
            answer = peer.ask(CONFIG, select(path, SET, content), ALWAYS_ACK | ALL_OR_NONE)
        print(word, ".".join(map(str, path)), shown(*answer))
    peer.send(TEARDOWN, tlv(AS_REASON, struct.pack(">I", 0)))
    connection.close()


if __name__ == "__main__":
    main()
