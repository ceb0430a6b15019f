#!/usr/bin/env python3
"""Services of a weir control element (CE), over HTTP on its Unix socket. Only the standard library is needed.

Gives a port of a forwarding element (FE) a rate and a discipline, then prints what the CE reports about an event or a
component until enough was printed:

    services.py --socket /run/weir-ce/ce.sock --fe edge1 --port wan --rate "50 Mbit" --kind sfq \\
        --watch edge1:port.wan.carrier_lost --notices 10
"""

import argparse
import http.client
import json
import socket
import sys


class Unix(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("weir", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, method, target, body=None):
    """Sends one request and returns its answer; ends with the reasons if the CE refuses."""
    connection = Unix(path)
    try:
        headers = {} if body is None else {"content-type": "application/json"}
        connection.request(method, target, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    if response.status == 422:
        sys.exit("\n".join(json.loads(text)["messages"]))
    if response.status != 200:
        sys.exit(f"{method} {target}: {response.status}: {text}")
    return json.loads(text)


def subscribe(path, request, callback):
    """Calls back with each notice until the callback returns false. The answer goes on: a line of JSON for each."""
    connection = Unix(path)
    try:
        connection.request("POST", "/v1/watch", json.dumps(request), {"content-type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            sys.exit(f"/v1/watch: {response.status}: {response.read().decode()}")
        for line in response:
            if not line.strip():
                continue  # the CE shows life
            notice = json.loads(line)
            if list(notice) == ["lost"]:
                print(f"{notice['lost']} notices were lost: read faster", file=sys.stderr)
            elif not callback(notice):
                return
        sys.exit("the CE has ended the watch")
    finally:
        connection.close()


def main():
    parser = argparse.ArgumentParser(description="Sets the queue of a port, then prints notices.")
    parser.add_argument("--socket", default="/run/weir-ce/ce.sock")
    parser.add_argument("--fe", required=True)
    parser.add_argument("--port", required=True)
    parser.add_argument("--rate")
    parser.add_argument("--kind")
    parser.add_argument("--watch", help="FE:PATH of an event or a component")
    parser.add_argument("--interval-ms", type=int, help="time between reports")
    parser.add_argument("--notices", type=int, default=10, help="end after this number")
    arguments = parser.parse_args()

    queue = {"fe": arguments.fe, "port": arguments.port, "rate": arguments.rate, "kind": arguments.kind}
    for line in ask(arguments.socket, "POST", "/v1/service/queue", [queue])["messages"]:
        print(line, flush=True)
    if arguments.watch is None:
        return
    left = arguments.notices

    def show(notice):
        nonlocal left
        print(json.dumps(notice), flush=True)
        left -= 1
        return left > 0

    subscribe(arguments.socket, {"path": arguments.watch, "interval_ms": arguments.interval_ms}, show)


if __name__ == "__main__":
    main()
