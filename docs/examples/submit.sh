#!/bin/sh
# Sends a film, has it transcoded, waits for the end and fetches the result; nothing but curl.
#
#   FENCEPOST_KEY=fp_live_… docs/examples/submit.sh film.mp4 small.mp4
#
# FENCEPOST_API is the gateway (http://127.0.0.1:8080).
set -eu
film=$1 result=$2
api=${FENCEPOST_API:-http://127.0.0.1:8080}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
# In a file, since everybody on this machine can read arguments.
printf 'Authorization: Bearer %s\n' "$FENCEPOST_KEY" >"$folder/auth"

# ask METHOD PATH [CURL-OPTIONS...]: the answer. Asks again while that may help.
ask() {
  method=$1 path=$2
  shift 2
  curl -sS --fail-with-body --retry 8 --retry-all-errors --retry-max-time 120 -X "$method" \
    -H @"$folder/auth" "$@" "$api$path"
}
# field NAME: the first text of that name in the JSON on stdin. Use jq where you have it.
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1; }

# 1. Send the film: a place for it, then the bytes. Half of a file is nothing, so it can be repeated.
upload=$(ask POST /v1/uploads -H 'Content-Type: application/json' -d '{}')
link=$(echo "$upload" | field url)
case $link in /*) link=$api$link ;; esac
curl -sS --fail-with-body --retry 8 --retry-all-errors -T "$film" "$link" >/dev/null
while ask POST "$(echo "$upload" | field complete_url)" -H 'Content-Type: application/json' -d '{}' |
  grep -q '"status":"reading"'; do sleep 2; done

# 2. Order the work. The key makes this order one job, however often it is sent.
job=$(ask POST /v1/jobs -H 'Content-Type: application/json' \
  -H "Idempotency-Key: $(basename "$film")-$(date +%s)-$$" -d '{
    "service": "transcode.v1",
    "params": {"codec": "h264", "height": 720},
    "inputs": {"source": {"upload_id": "'"$(echo "$upload" | field upload_id)"'"}}
  }' | field id)
echo "job $job" >&2

# 3. Follow it. A stream that is cut goes on after the last event that was seen.
seen=0 end='' cuts=0
mkfifo "$folder/events"
while [ -z "$end" ]; do
  curl -sN --max-time 1200 --speed-limit 1 --speed-time 40 -H @"$folder/auth" \
    -H 'Accept: text/event-stream' -H "Last-Event-ID: $seen" "$api/v1/jobs/$job/events" \
    >"$folder/events" &
  while IFS= read -r line; do
    case $line in
      'id: '*) seen=${line#id: } cuts=0 ;;
      'event: job.'*) end=${line#event: job.} ;;
      'data: '*) echo "${line#data: }" >&2 ;;
    esac
  done <"$folder/events"
  wait $! || true
  [ -n "$end" ] || { cuts=$((cuts + 1)) && [ "$cuts" -lt 60 ] && sleep 2; }
done
[ "$end" = succeeded ] || { echo "the job has $end" >&2 && exit 1; }

# 4. Fetch the result, and check that it is the one that was verified.
sha256=$(ask GET "/v1/jobs/$job" | sed -n 's/.*"output":{\([^}]*\)}.*/{\1}/p' | field sha256)
link=$(ask GET "/v1/jobs/$job/output" -o "$folder/no-body" -w '%{redirect_url}')
curl -sS --fail --retry 8 --retry-all-errors -o "$result.part" "$link"
if command -v sha256sum >/dev/null; then sum=sha256sum; else sum='shasum -a 256'; fi
[ "$($sum <"$result.part" | cut -d' ' -f1)" = "$sha256" ] || { echo 'not the right bytes' >&2 && exit 1; }
mv "$result.part" "$result"
echo "$result $sha256"
