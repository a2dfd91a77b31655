"""A web server on this machine whose manners a test chooses."""

import contextlib
import http.server
import re
import threading


class Mirror:
    """What one path of the server does; `requests` collects the Range header of each request ("" where there was none)."""

    def __init__(
        self, content, *, status=200, ranges=True, break_after=(), headers=None, announce=None, total=None, begin=None
    ):
        self.content = content
        self.status = status
        self.ranges = ranges
        self.break_after = list(break_after)  # bytes after which each successive answer is broken off
        self.headers = headers or {}
        self.announce = announce  # Content-Length to lie about; "" for none at all
        self.total = total  # total to lie about in Content-Range
        self.begin = begin  # byte at which every range begins, whatever was asked for
        self.requests = []


@contextlib.contextmanager
def serving(mirrors):
    """Serve {path: Mirror} on a free port of 127.0.0.1; yields the base URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            mirror = mirrors.get(self.path)
            if mirror is None:
                self.send_error(404, "Not Found")
                return
            asked = self.headers.get("Range", "")
            mirror.requests.append(asked)
            if mirror.status in (301, 302, 307, 308):
                self.send_response(mirror.status)
                for name, value in ({"Content-Length": "0"} | mirror.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                return
            if mirror.status != 200:
                self.send_error(mirror.status)
                return
            match = re.fullmatch(r"bytes=(\d+)-", asked)
            start = int(match[1]) if match and mirror.ranges else 0
            start = mirror.begin if start and mirror.begin else start
            if start >= len(mirror.content):
                self.send_error(416)
                return
            body = mirror.content[start:]
            self.send_response(206 if start else 200)
            if start:
                total = mirror.total or len(mirror.content)
                self.send_header("Content-Range", f"bytes {start}-{len(mirror.content) - 1}/{total}")
            if mirror.announce != "":
                self.send_header("Content-Length", str(mirror.announce or len(body)))
            for name, value in mirror.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body[: mirror.break_after.pop(0)] if mirror.break_after else body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
