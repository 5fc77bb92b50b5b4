import { Agent, type IncomingMessage, request } from 'node:http';
import type { Caller } from './cluster.ts';
import type { FaultyApp } from './faultyApp.ts';
import { type Random, randomFrom } from './random.ts';

/** A request of the mix, and how it is to go wrong. */
export interface Asked {
  readonly path: string;
  readonly body: object;
  readonly headers: Readonly<Record<string, string>>;
  /** Bytes of the answer after which its caller leaves; -1: before any came. */
  readonly leavesAfter?: number;
}

/** What became of a request, as its caller saw it. */
export interface Sent {
  /** Also its label `n`, by which its row of the ledger is found, and a header, by which its entry in the bill is. */
  readonly number: string;
  readonly asked: Asked;
  /** 0 where none came. */
  readonly status: number;
  /** `whole`: the answer came to its end; `refused`: an error of the service's own; `cut`: it broke off. */
  readonly end: 'whole' | 'refused' | 'cut' | 'left';
  /** Of an error. */
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
  /** Part of the numbers, where a caller has several loads. */
  readonly series?: string;
  /** Those that are up share the requests. */
  readonly proxies: readonly FaultyApp[];
  /** Default: plain and streamed requests of all routes, none of which goes wrong. */
  readonly ask?: (random: Random) => Asked;
  /** How many are under way at once. Default 8. */
  readonly atOnce?: number;
  /** Connections are used again: only where no proxy goes away, which would fail requests that it never saw. */
  readonly keepAlive?: boolean;
}

export interface Load {
  /** All that ended so far. */
  readonly sent: readonly Sent[];
  /** Sends so many and waits for all of their ends. */
  send(count: number): Promise<void>;
  /** Sends until `stop` is called, which waits for the ends. Pauses so long after each. */
  start(pauseMs?: number): { stop(): Promise<void> };
}

const TAIL_BYTES = 2_000;
const NO_PROXY_PAUSE_MS = 50;

export function createLoad(options: LoadOptions): Load {
  const { caller, seed, series = '', proxies, ask = ordinary, atOnce = 8 } = options;
  const agent = options.keepAlive ? keptAgent : freshAgent;
  const random = randomFrom(seed);
  const sent: Sent[] = [];
  let next = 1;

  async function sendOne(): Promise<void> {
    const up = proxies.filter((proxy) => proxy.isUp);
    if (up.length === 0) return await pause(NO_PROXY_PAUSE_MS);
    const asked = ask(random);
    sent.push(await sendTo(random.pick(up), caller, `${caller.name}.${series}${next++}`, asked, agent));
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
export function ordinary(random: Random): Asked {
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

/** As heavy in the spool as a request may be made by its attribution. */
export function heavy(random: Random): Asked {
  const asked = ordinary(random);
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
  return { ...asked, headers: { ...asked.headers, ...Object.fromEntries(attribution) } };
}

/** A stream of `chunks` tokens, one each so many milliseconds: long enough to be interrupted. */
export function slowStream(chunks: number, chunkDelayMs: number): Asked {
  return {
    path: '/v1/chat/completions',
    body: { model: 'mock/echo', stream: true, messages: [{ role: 'user', content: 'slowly' }] },
    headers: { 'x-mock-chunks': String(chunks), 'x-mock-chunk-delay-ms': String(chunkDelayMs) },
  };
}

/** No connection is used twice: one that is about to close would fail requests which the service never saw. */
const freshAgent = new Agent({ keepAlive: false, maxSockets: 256 });
const keptAgent = new Agent({ keepAlive: true, maxSockets: 256 });

/** Sends one request; resolves when it is over, however it ends. */
export function sendTo(
  proxy: FaultyApp,
  caller: Caller,
  number: string,
  asked: Asked,
  agent = freshAgent,
): Promise<Sent> {
  return new Promise((resolve) => {
    const { path, body, headers, leavesAfter } = asked;
    const startedAt = performance.now();
    let [status, bytes, tail, hasLeft, isComplete] = [0, 0, '', false, false];
    const outgoing = request(`${proxy.url}${path}`, {
      method: 'POST',
      agent,
      headers: {
        authorization: `Bearer ${caller.key}`,
        'content-type': 'application/json',
        'x-svc-labels': `n=${number}`,
        'x-number': number,
        ...headers,
      },
    });
    const leave = () => {
      hasLeft = true;
      outgoing.destroy();
    };
    outgoing.on('response', (answer: IncomingMessage) => {
      status = answer.statusCode ?? 0;
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => {
        bytes += chunk.length;
        tail = (tail + chunk).slice(-TAIL_BYTES);
        if (leavesAfter !== undefined && bytes >= leavesAfter) leave();
      });
      answer.on('end', () => {
        isComplete = answer.complete;
      });
      answer.on('error', () => {});
    });
    outgoing.on('error', () => {});
    outgoing.on('close', () => {
      const code = /"code":"(\w+)"/.exec(tail)?.[1];
      const isWhole = isComplete && status === 200 && !isBrokenStream(tail);
      const end = isWhole ? 'whole' : hasLeft ? 'left' : status >= 300 ? 'refused' : 'cut';
      resolve({
        number,
        asked,
        status,
        end,
        code: isWhole ? undefined : code,
        proxy: proxy.name,
        startedAt,
        endedAt: performance.now(),
      });
    });
    outgoing.end(JSON.stringify(body), () => {
      if (leavesAfter === -1) setTimeout(leave, 20);
    });
  });
}

/** A stream of events without its last one. */
function isBrokenStream(tail: string): boolean {
  const isStream = /^(data|event): /m.test(tail);
  return isStream && !/\[DONE\]|message_stop|response\.completed/.test(tail);
}
