# Takes {secret, body, headers} on its input and says whether the published library believes it.
import json
import sys

from standardwebhooks import Webhook

message = json.load(sys.stdin)
parsed = Webhook(message["secret"]).verify(message["body"], message["headers"])
print(json.dumps(parsed))
