#!/bin/sh
# The browser as Remotion starts it, but on the port for debugging that the wall lets through.
for word do
  shift
  case $word in --remote-debugging-port=*) word=--remote-debugging-port=$FENCEPOST_DEBUG_PORT ;; esac
  set -- "$@" "$word"
done
exec "$FENCEPOST_BROWSER" "$@"
