#!/usr/bin/env python3
"""Receives webhooks: believes only what is signed, answers at once, and takes each event once.

    pip install standardwebhooks
    WEBHOOK_SECRET=whsec_… docs/examples/receive_webhook.py 8000

Put a server that speaks TLS in front of it.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
seen = set()  # in a real receiver: a table, in the transaction of what you do about the event


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        # The bytes as they came: what was parsed and written again is signed by nobody.
        body = self.rfile.read(min(int(self.headers["Content-Length"]), 1 << 20))
        try:
            webhook.verify(body, {name.lower(): value for name, value in self.headers.items()})
        except WebhookVerificationError:
            return self.answer(400)
        event = json.loads(body)
        if self.headers["webhook-id"] not in seen:
            seen.add(self.headers["webhook-id"])
            print(event["type"], event["data"]["job_id"], flush=True)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
