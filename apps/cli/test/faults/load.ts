import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import type { Caller } from './cluster.ts';
import type { FaultyApp } from './faultyApp.ts';
import { type Random, randomFrom } from './random.ts';

/** A request of the mix, and its faults. */
export interface LoadRequest {
  readonly path: string;
  readonly body: object;
  readonly headers: Readonly<Record<string, string>>;
  /** Bytes of the response after which the client disconnects; -1: before the first. */
  readonly disconnectsAfter?: number;
}

/** The outcome of a request, as its client saw it. */
export interface SentRequest {
  /** Also its label `n`, which finds its row in the ledger, and a header, which finds its entry in the bill. */
  readonly number: string;
  readonly request: LoadRequest;
  /** 0 if there was no response. */
  readonly status: number;
  /** `whole`: the response was complete; `refused`: an error of the service; `cut`: it broke off. */
  readonly end: 'whole' | 'refused' | 'cut' | 'left';
  /** The error code. */
  readonly code: string | undefined;
  /** The name of the proxy that it was sent to. */
  readonly proxy: string;
  /** Monotonic, in milliseconds. */
  readonly startedAt: number;
  readonly endedAt: number;
}

export interface LoadOptions {
  readonly caller: Caller;
  readonly seed: number;
  /** Part of the numbers, if a caller has several loads. */
  readonly series?: string;
  /** The running ones share the requests. */
  readonly proxies: readonly FaultyApp[];
  /** Default: plain and streamed requests of all routes, without faults. */
  readonly nextRequest?: (random: Random) => LoadRequest;
  /** The number of parallel requests. Default 8. */
  readonly atOnce?: number;
  /** Reuses connections. Only if no proxy stops, which would fail requests that it never saw. */
  readonly keepAlive?: boolean;
}

export interface Load {
  /** The requests that have ended so far. */
  readonly sent: readonly SentRequest[];
  /** Sends this many requests and waits until all have ended. */
  send(count: number): Promise<void>;
  /** Sends until `stop` is called, with a pause after each request. `stop` waits until all have ended. */
  start(pauseMs?: number): { stop(): Promise<void> };
}

const TAIL_BYTES = 2_000;
const NO_PROXY_PAUSE_MS = 50;

export function createLoad(options: LoadOptions): Load {
  const { caller, seed, series = '', proxies, nextRequest = ordinary, atOnce = 8 } = options;
  const agent = options.keepAlive ? keepAliveAgent : freshAgent;
  const random = randomFrom(seed);
  const sent: SentRequest[] = [];
  let next = 1;

  async function sendOne(): Promise<void> {
    const up = proxies.filter((proxy) => proxy.isUp);
    if (up.length === 0) return await pause(NO_PROXY_PAUSE_MS);
    const request = nextRequest(random);
    sent.push(await sendTo(random.pick(up), caller, `${caller.name}.${series}${next++}`, request, agent));
  }
  async function all(isOver: () => boolean, pauseMs: number): Promise<void> {
    const worker = async () => {
      while (!isOver()) {
        await sendOne();
        if (pauseMs > 0) await pause(pauseMs);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  }

  return {
    sent,
    async send(count) {
      let left = count;
      await all(() => left-- <= 0, 0);
    },
    start(pauseMs = 20) {
      let isOver = false;
      const running = all(() => isOver, pauseMs);
      return {
        async stop() {
          isOver = true;
          await running;
        },
      };
    },
  };
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Any route, plain or streamed, slower or faster. */
export function ordinary(random: Random): LoadRequest {
  const text = 'weigh '.repeat(1 + random.integer(40));
  const messages = [{ role: 'user', content: text }];
  const model = 'mock/echo';
  const stream = random.chance(0.5);
  const [path, body] = random.pick<[string, object]>([
    ['/v1/chat/completions', { model, messages, stream }],
    ['/v1/chat/completions', { model, messages, stream, ...(stream && INCLUDE_USAGE) }],
    ['/v1/responses', { model, input: text, stream, store: false }],
    ['/v1/messages', { model, max_tokens: 1_000, messages, stream }],
    ['/v1/embeddings', { model, input: text }],
  ]);
  const headers: Record<string, string> = {};
  if (path !== '/v1/embeddings' && random.chance(0.3)) headers['x-mock-cached-tokens'] = '3';
  if (path !== '/v1/embeddings' && random.chance(0.3)) headers['x-mock-reasoning-tokens'] = '20';
  if (random.chance(0.2)) headers['x-mock-split'] = String(1 + random.integer(300));
  return { path, body, headers };
}

const INCLUDE_USAGE = { stream_options: { include_usage: true } };

/** A request with the largest possible attribution, so that it takes much space in the spool. */
export function heavy(random: Random): LoadRequest {
  const request = ordinary(random);
  const names = [
    'user',
    'team',
    'project',
    'env',
    'namespace',
    'workload',
    'pod',
    'session-id',
    'workload-type',
  ];
  const attribution = names.map((name) => [`x-svc-${name}`, 'heavy '.repeat(42)]);
  return { ...request, headers: { ...request.headers, ...Object.fromEntries(attribution) } };
}

/** A stream of `chunks` tokens, one every `chunkDelayMs`: long enough to be interrupted. */
export function slowStream(chunks: number, chunkDelayMs: number): LoadRequest {
  return {
    path: '/v1/chat/completions',
    body: { model: 'mock/echo', stream: true, messages: [{ role: 'user', content: 'slowly' }] },
    headers: { 'x-mock-chunks': String(chunks), 'x-mock-chunk-delay-ms': String(chunkDelayMs) },
  };
}

/** Never reuses a connection: one that is about to close would fail requests that the service never saw. */
const freshAgent = new Agent({ keepAlive: false, maxSockets: 256 });
const keepAliveAgent = new Agent({ keepAlive: true, maxSockets: 256 });

/** Sends one request; resolves at its end, whether it succeeds or not. */
export function sendTo(
  proxy: FaultyApp,
  caller: Caller,
  number: string,
  request: LoadRequest,
  agent = freshAgent,
): Promise<SentRequest> {
  return new Promise((resolve) => {
    const { path, body, headers, disconnectsAfter } = request;
    const startedAt = performance.now();
    let [status, bytes, tail, hasDisconnected, isComplete] = [0, 0, '', false, false];
    const outgoing = httpRequest(`${proxy.url}${path}`, {
      method: 'POST',
      agent,
      headers: {
        authorization: `Bearer ${caller.key}`,
        'content-type': 'application/json',
        'x-svc-labels': `n=${number}`,
        'x-client-request-id': number,
        ...headers,
      },
    });
    const disconnect = () => {
      hasDisconnected = true;
      outgoing.destroy();
    };
    outgoing.on('response', (response: IncomingMessage) => {
      status = response.statusCode ?? 0;
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        bytes += chunk.length;
        tail = (tail + chunk).slice(-TAIL_BYTES);
        if (disconnectsAfter !== undefined && bytes >= disconnectsAfter) disconnect();
      });
      response.on('end', () => {
        isComplete = response.complete;
      });
      response.on('error', () => {});
    });
    outgoing.on('error', () => {});
    outgoing.on('close', () => {
      const code = /"code":"(\w+)"/.exec(tail)?.[1];
      const isWhole = isComplete && status === 200 && !isBrokenStream(tail);
      const end = isWhole ? 'whole' : hasDisconnected ? 'left' : status >= 300 ? 'refused' : 'cut';
      resolve({
        number,
        request,
        status,
        end,
        code: isWhole ? undefined : code,
        proxy: proxy.name,
        startedAt,
        endedAt: performance.now(),
      });
    });
    outgoing.end(JSON.stringify(body), () => {
      if (disconnectsAfter === -1) setTimeout(disconnect, 20);
    });
  });
}

/** Whether a stream of events lacks its last one. */
function isBrokenStream(tail: string): boolean {
  const isStream = /^(data|event): /m.test(tail);
  return isStream && !/\[DONE\]|message_stop|response\.(completed|incomplete)/.test(tail);
}
