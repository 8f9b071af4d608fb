/**
 * Receives webhooks: believes only what is signed, answers at once, and takes each event once.
 *
 *     npm install standardwebhooks
 *     WEBHOOK_SECRET=whsec_… node docs/examples/receive_webhook.ts 8000
 *
 * Put a server that speaks TLS in front of it.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

type Event = { type: string; data: { job_id: string } };

const webhook = new Webhook(process.env.WEBHOOK_SECRET ?? "");
const seen = new Set<string>(); // in a real receiver: a table, in the transaction of what you do about it

const server = createServer(async (request, response) => {
  // The bytes as they came: what was parsed and written again is signed by nobody.
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString("utf8");
  const headers = Object.fromEntries(
    Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
  );
  try {
    const event = webhook.verify(body, headers) as Event;
    const id = headers["webhook-id"] ?? "";
    if (!seen.has(id)) {
      seen.add(id);
      console.log(event.type, event.data.job_id);
    }
    response.writeHead(204).end();
  } catch (error) {
    response.writeHead(error instanceof WebhookVerificationError ? 400 : 500).end();
  }
});
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  console.log(`listening on http://127.0.0.1:${port}/`);
});
