"""A web server for fetch_test.cpp that misbehaves on request; loopback only, standard library only.

Usage: http_server.py FOLDER LOG. Serves the files of FOLDER under /<mode>/<path>, writes its port
to stdout and one line "<mode> <path> <Range or ->" a request to LOG, and ends when stdin does.
Modes: plain, truncate (each answer breaks off half way), truncate_once, no_range (ignores Range,
breaks off once), changed (another etag each time, breaks off once), no_etag (breaks off once),
stall_once (the first answer stops half way and stays open), shifted (answers a Range from the wrong
byte), redirect, chunked (no Content-Length), html (a page
instead of the file), corrupt (one bit turned), stall, and status codes: 404, 503, 503_once. The
Range of a HEAD request is HEAD.
"""

import http.server
import os
import sys
import threading
import time

FOLDER, LOG = sys.argv[1:3]
seen = {}  # requests so far by URL path


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *unused):
        pass

    def do_HEAD(self):
        _, mode, path = self.path.split("/", 2)
        with open(LOG, "a") as log:
            log.write(f"{mode} {path} HEAD\n")
        file = os.path.join(FOLDER, path)
        found = os.path.exists(file) and not mode.isdigit()
        self.send_response(200 if found else 404)
        if found and mode != "chunked":
            self.send_header("Content-Length", str(os.path.getsize(file)))
        self.end_headers()

    def do_GET(self):
        _, mode, path = self.path.split("/", 2)
        asked = self.headers.get("Range", "-")
        with open(LOG, "a") as log:
            log.write(f"{mode} {path} {asked}\n")
        first = self.path not in seen
        seen[self.path] = seen.get(self.path, 0) + 1

        if mode == "redirect":
            return self.answer(302, b"moved", {"Location": f"/plain/{path}"})
        if mode.isdigit() or (mode == "503_once" and first):
            return self.answer(int(mode[:3]), b"an error page, not to be kept")
        try:
            with open(os.path.join(FOLDER, path), "rb") as file:
                body = file.read()
        except FileNotFoundError:
            return self.answer(404, b"an error page, not to be kept")
        if mode == "html":
            return self.answer(200, b"<html>please log in</html>")
        if mode == "corrupt":
            body = body[:1000] + bytes([body[1000] ^ 4]) + body[1001:]
        etag = f'"{seen[self.path]}"' if mode == "changed" else '"v1"'
        headers = {} if mode == "no_etag" else {"ETag": etag}
        status, start = 200, 0
        if asked != "-" and mode != "no_range" and self.headers.get("If-Range", etag) == etag:
            status, start = 206, int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                return self.answer(416, b"")
            if mode == "shifted":
                start += 1
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        breaks_once = ("truncate_once", "no_range", "changed", "no_etag", "shifted")
        breaks = mode == "truncate" or (first and mode in breaks_once)
        if mode == "stall_once":
            mode = "stall_half" if first else "plain"
        self.answer(status, body[start:], headers, breaks, mode)

    def answer(self, status, body, headers={}, breaks=False, mode=""):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if mode == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if mode == "chunked":
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
            return
        if mode == "stall":
            self.wfile.flush()
            time.sleep(5)
        if mode == "stall_half":
            self.wfile.write(body[: len(body) // 2])
            time.sleep(30)
            return
        self.wfile.write(body[: len(body) // 2] if breaks else body)
        if breaks:
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # clients that hang up are tested
            super().handle_error(request, client_address)


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdout.write(f"{server.server_address[1]}\n")
sys.stdout.flush()
sys.stdin.read()
