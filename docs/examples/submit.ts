/**
 * Sends a film, has it transcoded, waits for the end and fetches the result. Needs no package.
 *
 *     FENCEPOST_KEY=fp_live_… node docs/examples/submit.ts film.mp4 small.mp4
 *
 * Node 22.18 and later run it as it is; before, compile it with `npx tsc -p docs/examples` first.
 * FENCEPOST_API is the gateway (http://127.0.0.1:8080).
 */
import { createHash, randomUUID } from "node:crypto";
import { open, readFile, rename } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const api = process.env.FENCEPOST_API ?? "http://127.0.0.1:8080";
const auth = { Authorization: `Bearer ${process.env.FENCEPOST_KEY}` };
const patienceMs = 120_000;

type Problem = { code: string; detail: string; field?: string; request_id?: string };
type Output = { sha256: string; size_bytes: number };
type Job = { id: string; status: string; output: Output | null };
type JobEvent = { event: string; data: any };

class Refused extends Error {}

/** Tries until there is an answer: cut connections, 429 and 5xx are worth another try. */
async function patiently(once: () => Promise<Response>): Promise<Response> {
  const began = Date.now();
  for (let pause = 300; ; pause = Math.min(pause * 2, 10_000)) {
    let trouble: unknown;
    try {
      const answer = await once();
      if (answer.status < 400) return answer;
      if (answer.status !== 429 && answer.status < 500) {
        const problem = (await answer.json()) as Problem;
        throw new Refused(`${problem.field ?? ""} ${problem.detail} (${problem.code})`);
      }
      trouble = `the gateway answered ${answer.status}`;
      const after = answer.headers.get("Retry-After");
      if (after) pause = Number(after) * 1000;
    } catch (error) {
      if (error instanceof Refused) throw error;
      trouble = error;
    }
    if (Date.now() - began > patienceMs) throw new Error("the gateway is away", { cause: trouble });
    await sleep(pause);
  }
}

function ask(method: string, path: string, headers = {}, body?: object): Promise<Response> {
  return patiently(() =>
    fetch(new URL(path, api), {
      method,
      redirect: "manual",
      headers: { ...auth, "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    }),
  );
}

/** A place for the file, then its bytes. Half of a file is nothing, so it can be repeated. */
async function upload(film: string): Promise<string> {
  const bytes = await readFile(film);
  const place = (await (await ask("POST", "/v1/uploads", {}, { size_bytes: bytes.length })).json()) as {
    upload_id: string;
    url: string;
    complete_url: string;
  };
  // Without the API key: the link is all that it needs.
  await patiently(() => fetch(new URL(place.url, api), { method: "PUT", body: bytes }));
  while ((await ask("POST", place.complete_url, {}, {})).status === 202) await sleep(2_000);
  return place.upload_id;
}

/** What becomes of a job, to its end; a stream that is cut goes on where it was. */
async function* events(job: string): AsyncGenerator<JobEvent> {
  let lastId: string | undefined;
  let cutSince: number | undefined;
  for (;;) {
    try {
      const headers = { Accept: "text/event-stream", ...(lastId && { "Last-Event-ID": lastId }) };
      const stream = await ask("GET", `/v1/jobs/${job}/events`, headers);
      let unread = "";
      const decoder = new TextDecoder();
      for await (const chunk of stream.body ?? []) {
        unread += decoder.decode(chunk, { stream: true });
        for (let end = unread.indexOf("\n\n"); end >= 0; end = unread.indexOf("\n\n")) {
          const lines = unread.slice(0, end).split("\n");
          unread = unread.slice(end + 2);
          const field = (name: string) =>
            lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
          const [event, data] = [field("event"), field("data")];
          if (event === undefined || data === undefined) continue;
          lastId = field("id") ?? lastId;
          cutSince = undefined;
          yield { event, data: JSON.parse(data) };
          if (["job.succeeded", "job.failed", "job.cancelled"].includes(event)) return;
        }
      }
    } catch (error) {
      if (error instanceof Refused) throw error;
      console.error("again:", error);
    }
    cutSince ??= Date.now();
    if (Date.now() - cutSince > patienceMs) throw new Error("the stream does not come back");
    await sleep(1_000);
  }
}

/** Fetches the output, goes on where it was cut, and checks that it is the one that was verified. */
async function download(job: string, result: string): Promise<string> {
  const { output } = (await (await ask("GET", `/v1/jobs/${job}`)).json()) as Job;
  if (!output) throw new Error("there is no output");
  const digest = createHash("sha256");
  const file = await open(`${result}.part`, "w");
  for (let size = 0; size < output.size_bytes; ) {
    const link = (await ask("GET", `/v1/jobs/${job}/output`)).headers.get("Location") ?? "";
    const range = { Range: `bytes=${size}-` };
    const answer = await patiently(() => fetch(new URL(link, api), { headers: range }));
    try {
      for await (const chunk of answer.body ?? []) {
        await file.write(chunk);
        digest.update(chunk);
        size += chunk.length;
      }
    } catch (error) {
      console.error(`going on at ${size}:`, error);
    }
  }
  await file.close();
  if (digest.digest("hex") !== output.sha256) throw new Error("these are not the bytes that were verified");
  await rename(`${result}.part`, result);
  return output.sha256;
}

const [film, result] = process.argv.slice(2);
if (!film || !result) throw new Error("usage: submit.ts FILM RESULT");
const order = {
  service: "transcode.v1",
  params: { codec: "h264", height: 720 },
  inputs: { source: { upload_id: await upload(film) } },
  metadata: { file: film },
};
// The key makes this order one job, however often it is sent.
const key = { "Idempotency-Key": randomUUID() };
const job = (await (await ask("POST", "/v1/jobs", key, order)).json()) as Job;
console.error(`job ${job.id}`);
let end: JobEvent | undefined;
for await (const told of events(job.id)) {
  console.error(told.event, JSON.stringify(told.data));
  end = told;
}
if (end?.event !== "job.succeeded") throw new Error(`the job ended otherwise: ${JSON.stringify(end)}`);
console.log(result, await download(job.id, result));
