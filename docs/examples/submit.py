#!/usr/bin/env python3
"""Sends a film, has it transcoded, waits for the end and fetches the result.

    pip install requests
    FENCEPOST_KEY=fp_live_… docs/examples/submit.py film.mp4 small.mp4

FENCEPOST_API is the gateway (http://127.0.0.1:8080).
"""

import hashlib
import json
import os
import sys
import time
import uuid
from pathlib import Path
from urllib.parse import urljoin

import requests

API = os.environ.get("FENCEPOST_API", "http://127.0.0.1:8080")
PATIENCE_SECONDS = 120
session = requests.Session()
session.headers["Authorization"] = "Bearer " + os.environ["FENCEPOST_KEY"]


class Refused(Exception):
    """The gateway said no; the same request would be refused again."""


def patiently(once):
    """Tries until there is an answer: cut connections, 429 and 5xx are worth another try."""
    began, pause = time.monotonic(), 0.3
    while True:
        try:
            answer = once()
            if answer.status_code < 400:
                return answer
            if answer.status_code != 429 and answer.status_code < 500:
                problem = answer.json()
                where = f"{problem['field']}: " if problem.get("field") else ""
                raise Refused(f"{where}{problem['detail']} ({problem['code']})")
            trouble = f"the gateway answered {answer.status_code}"
            pause = float(answer.headers.get("Retry-After", pause))
        except (requests.ConnectionError, requests.Timeout) as error:
            trouble = str(error)
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise TimeoutError(trouble)
        time.sleep(pause)
        pause = min(pause * 2, 10)


def ask(method, path, **more):
    url = urljoin(API, path)
    return patiently(lambda: session.request(method, url, timeout=40, allow_redirects=False, **more))


def upload(film):
    """A place for the file, then its bytes. Half of a file is nothing, so it can be repeated."""
    place = ask("POST", "/v1/uploads", json={"size_bytes": film.stat().st_size}).json()

    def once():
        with film.open("rb") as bytes_:
            # Without the API key: the link is all that it needs.
            return requests.put(urljoin(API, place["url"]), data=bytes_, timeout=40)

    patiently(once)
    while ask("POST", place["complete_url"], json={}).status_code == 202:
        time.sleep(2)
    return place["upload_id"]


def events(job):
    """What becomes of a job, to its end; a stream that is cut goes on where it was."""
    last_id, cut_since = None, None
    while True:
        headers = {"Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        try:
            # The gateway says something every 15 seconds.
            stream = ask("GET", f"/v1/jobs/{job}/events", headers=headers, stream=True)
            event = {}
            for line in stream.iter_lines(decode_unicode=True):
                if line:
                    name, _, value = line.partition(": ")
                    event[name] = value
                    continue
                if "data" in event:
                    last_id = event.get("id", last_id)
                    cut_since = None
                    yield event["event"], json.loads(event["data"])
                    if event["event"] in ("job.succeeded", "job.failed", "job.cancelled"):
                        return
                event = {}
        except requests.RequestException as error:
            print(f"again: {error}", file=sys.stderr)
        cut_since = cut_since or time.monotonic()
        if time.monotonic() - cut_since > PATIENCE_SECONDS:
            raise TimeoutError("the stream does not come back")
        time.sleep(1)


def download(job, result):
    """Fetches the output, goes on where it was cut, and checks that it is the one that was verified."""
    output = ask("GET", f"/v1/jobs/{job}").json()["output"]
    part = result.with_name(result.name + ".part")
    part.unlink(missing_ok=True)
    digest, size = hashlib.sha256(), 0
    while size < output["size_bytes"]:
        link = urljoin(API, ask("GET", f"/v1/jobs/{job}/output").headers["Location"])
        answer = patiently(
            lambda: requests.get(link, headers={"Range": f"bytes={size}-"}, stream=True, timeout=40)
        )
        try:
            with part.open("ab") as file:
                for chunk in answer.iter_content(1 << 16):
                    file.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
        except requests.RequestException as error:
            print(f"going on at {size}: {error}", file=sys.stderr)
    if digest.hexdigest() != output["sha256"]:
        raise ValueError("these are not the bytes that were verified")
    part.replace(result)
    return output["sha256"]


def main(film, result):
    order = {
        "service": "transcode.v1",
        "params": {"codec": "h264", "height": 720},
        "inputs": {"source": {"upload_id": upload(film)}},
        "metadata": {"file": film.name},
    }
    # The key makes this order one job, however often it is sent.
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    job = ask("POST", "/v1/jobs", json=order, headers=headers).json()["id"]
    print(f"job {job}", file=sys.stderr)
    for kind, what in events(job):
        print(kind, json.dumps(what), file=sys.stderr)
    if kind != "job.succeeded":
        sys.exit(f"the job ended otherwise: {what['data']['failure']}")
    print(result, download(job, result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
