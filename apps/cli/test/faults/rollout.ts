import { eventually } from '@weighbridge/testing';
import OpenAI from 'openai';
import { manage } from '../mainJob.ts';
import { type Caller, type Cluster, startCluster } from './cluster.ts';
import type { FaultyApp } from './faultyApp.ts';
import type { LoadRequest, SentRequest } from './load.ts';
import { type Random, randomFrom } from './random.ts';

/** How long a stopped app still accepts requests: longer than a balancer needs to notice. */
const SHUTDOWN_DELAY_MS = 2_000;
const READY_TIMEOUT_MS = 60_000;

/** A new key that is used at once is unknown to the proxies, so one has to ask a control plane. */
const NEW_KEY_EACH = 25;

/** Two processes of each app, as Kubernetes would run them. */
export async function startRollout(): Promise<Cluster> {
  const delay = { SHUTDOWN_DELAY_MS: String(SHUTDOWN_DELAY_MS) };
  return await startCluster({
    proxies: 2,
    workers: 2,
    controlPlanes: 2,
    balanced: true,
    env: { dataPlane: delay, controlPlane: delay },
  });
}

export interface SdkLoad {
  readonly sent: readonly SentRequest[];
  /** Descriptions of the failed requests and calls. */
  readonly failures: readonly string[];
  /** The number of requests that failed in a known way. */
  readonly known: number;
  /** The number of requests in flight. */
  readonly underWay: number;
  /** The number of keys issued meanwhile. */
  readonly issued: number;
  stop(): Promise<void>;
}

export interface SdkLoadOptions {
  readonly cluster: Cluster;
  readonly caller: Caller;
  readonly seed: number;
  readonly atOnce: number;
  /** Part of the numbers, if a caller has several loads. */
  readonly series?: string;
  /** Says of an error that it is a known one of an earlier release, which sent nothing to the vendor. */
  readonly isKnown?: (text: string) => boolean;
}

/** Load as from applications: the vendor's SDK with reused connections, without retries. */
export function startSdkLoad(options: SdkLoadOptions): SdkLoad {
  const { cluster, caller, seed, atOnce, series = '', isKnown = () => false } = options;
  const random = randomFrom(seed);
  const [sent, failures]: [SentRequest[], string[]] = [[], []];
  let [next, underWay, issued, known, isOver] = [1, 0, 0, 0, false];
  let key = caller.key;

  async function sendOne(): Promise<void> {
    const number = `${caller.name}.${series}${next++}`;
    if (next % NEW_KEY_EACH === 0) key = await issueKey();
    const request = nextRequest(random);
    const startedAt = performance.now();
    underWay++;
    try {
      await complete(
        new OpenAI({ apiKey: key, baseURL: `${cluster.inferenceUrl}/v1`, maxRetries: 0 }),
        number,
        request,
      );
      sent.push({ ...result(number, request, startedAt), status: 200, end: 'whole' });
    } catch (error) {
      if (isKnown(inFull(error))) {
        known++;
        return;
      }
      failures.push(`${number}: ${inFull(error)}`);
      sent.push({ ...result(number, request, startedAt), status: 0, end: 'cut' });
    } finally {
      underWay--;
    }
  }

  /** Calls of an operator, which must not fail either. */
  async function issueKey(): Promise<string> {
    try {
      const body = { name: 'issued meanwhile', principal_id: caller.name, scopes: ['inference'] };
      const created = await manage(cluster, 'POST', '/api/v1/keys', { body });
      if (created.status !== 201) throw new Error(`${created.status} ${JSON.stringify(created.body)}`);
      issued++;
      return String(created.body.key);
    } catch (error) {
      failures.push(`a key: ${inFull(error)}`);
      return caller.key;
    }
  }

  const workers = Array.from({ length: atOnce }, async () => {
    while (!isOver) await sendOne();
  });
  return {
    sent,
    failures,
    get known() {
      return known;
    },
    get underWay() {
      return underWay;
    },
    get issued() {
      return issued;
    },
    async stop() {
      isOver = true;
      await Promise.all(workers);
    },
  };
}

/** Replaces an app as Kubernetes does: stops it, waits until its balancers drop it and it ends, starts it, waits until it is ready. */
export async function replace(cluster: Cluster, app: FaultyApp): Promise<void> {
  const before = cluster.balancers.filter((balancer) => balancer.serves(app.name));
  const { code, signal } = await app.stop('SIGTERM');
  if (code !== 0) throw new Error(`${app.name} ended with ${signal ?? code}\n${app.output()}`);
  await app.start();
  await eventually(
    () => {
      if (!before.every((balancer) => balancer.serves(app.name))) throw new Error(`${app.name} is not ready`);
    },
    { timeoutMs: READY_TIMEOUT_MS },
  );
}

function nextRequest(random: Random): LoadRequest {
  const stream = random.chance(0.5);
  const isSlow = stream && random.chance(0.3);
  return {
    path: '/v1/chat/completions',
    body: {
      model: 'mock/echo',
      messages: [{ role: 'user', content: 'weigh '.repeat(1 + random.integer(40)) }],
      stream,
    },
    headers: {
      ...(isSlow && { 'x-mock-chunks': String(5 + random.integer(25)), 'x-mock-chunk-delay-ms': '50' }),
      ...(!stream && { 'x-mock-delay-ms': String(random.integer(100)) }),
    },
  };
}

async function complete(openai: OpenAI, number: string, { body, headers }: LoadRequest): Promise<void> {
  const answer = await openai.chat.completions.create(body as OpenAI.ChatCompletionCreateParams, {
    headers: { ...headers, 'x-client-request-id': number, 'x-svc-labels': `n=${number}` },
  });
  if (!(Symbol.asyncIterator in answer)) {
    if (!answer.choices[0]?.message.content) throw new Error('the answer is empty');
    return;
  }
  let finish: string | null | undefined;
  for await (const chunk of answer) finish = chunk.choices[0]?.finish_reason ?? finish;
  if (finish !== 'stop') throw new Error(`the stream ended without its end: ${finish}`);
}

function result(number: string, request: LoadRequest, startedAt: number) {
  const endedAt = performance.now();
  return { number, request, startedAt, endedAt, code: undefined, proxy: 'any' };
}

function inFull(error: unknown): string {
  const said: string[] = [];
  for (let at: unknown = error; at instanceof Error && said.length < 4; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    said.push(`${at.message}${code ? ` (${code})` : ''}`);
  }
  return said.join(': ') || String(error);
}
