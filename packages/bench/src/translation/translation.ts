import type { TestRun } from '@weighbridge/testing';
import { Pool } from 'undici';
import { loadLine } from '../shared/machine.ts';
import { type Quantiles, quantiles } from '../shared/quantiles.ts';
import {
  issueKeys,
  manage,
  type RunningProxy,
  type Service,
  startProxy,
  startService,
} from '../shared/service.ts';

/** Of the first token of a translated stream, after the vendor's. */
const MAX_TOKEN_MS = 1;
/** What an agent's request takes longer if it is translated. */
const MAX_REQUEST_MS = 1;
const PROMPT_BYTES = 89_000;
const WARM_UP = 0.2;

export interface TranslationOptions {
  /** Requests of each way, one after the other. */
  readonly requests: number;
  readonly onProgress: (text: string) => void;
}

interface Way {
  readonly name: string;
  readonly path: string;
  readonly model: string;
}

interface WayFigures {
  readonly name: string;
  /** From the vendor's write of its first token until the caller has it. */
  readonly tokenMs: Quantiles;
  /** From the caller's first byte until the vendor has the whole request of 89 KB. */
  readonly requestMs: Quantiles;
}

export interface TranslationFigures {
  readonly requests: number;
  /** Without a proxy, passed on, and translated. */
  readonly ways: readonly WayFigures[];
  readonly load: string;
}

const MESSAGES = '/v1/messages';
const CHAT = '/v1/chat/completions';
const WAYS: readonly Way[] = [
  { name: 'messages, no proxy', path: MESSAGES, model: 'claude' },
  { name: 'messages, passed on', path: MESSAGES, model: 'benchmessages/m' },
  { name: 'chat completions, passed on', path: CHAT, model: 'benchchat/m' },
  { name: 'messages to chat completions, translated', path: MESSAGES, model: 'benchchat/m' },
  { name: 'chat completions to messages, translated', path: CHAT, model: 'benchmessages/m' },
];

/** Measures what translation adds to the first token and to a large request, beside bytes that pass, in turns. */
export async function measureTranslation(
  run: TestRun,
  { requests, onProgress }: TranslationOptions,
): Promise<TranslationFigures> {
  const service = await startService(run, 'translation/timedVendor');
  let proxy: RunningProxy | undefined;
  const pools: Pool[] = [];
  try {
    await addModels(service);
    proxy = await startProxy(run, service, 'translating');
    const [key = ''] = await issueKeys(service, ['ada']);
    pools.push(new Pool(service.vendor.url, { connections: 1 }), new Pool(proxy.url, { connections: 1 }));
    const [direct, proxied] = pools;
    const seen = WAYS.map(() => ({ token: [] as number[], request: [] as number[] }));
    for (let at = 0; at < requests; at++) {
      if (at % 100 === 0) onProgress(`request ${at} of ${requests}, each way`);
      for (const [index, way] of WAYS.entries()) {
        const pool = index === 0 ? direct : proxied;
        const timed = pool && (await time(pool, way, key));
        if (!timed || at < requests * WARM_UP) continue;
        seen[index]?.token.push(timed.tokenMs);
        seen[index]?.request.push(timed.requestMs);
      }
    }
    const ways = WAYS.map(({ name }, index) => ({
      name,
      tokenMs: quantiles(seen[index]?.token ?? []),
      requestMs: quantiles(seen[index]?.request ?? []),
    }));
    return { requests, ways, load: loadLine() };
  } finally {
    for (const pool of pools) await pool.close();
    await proxy?.process.stop();
    await service.close();
  }
}

export function describeTranslation({ requests, ways, load }: TranslationFigures): string {
  const text = ({ p50, p99 }: Quantiles) => `p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`;
  return [
    `${requests} requests of 89 KB each way, one at a time, in turns; ${load}`,
    ...ways.map(
      ({ name, tokenMs, requestMs }) =>
        `${name}: first token after the vendor's ${text(tokenMs)}; request until the vendor has it ${text(requestMs)}`,
    ),
    `a translated first token is at most ${MAX_TOKEN_MS} ms after the vendor's at p50, and a request at most ${MAX_REQUEST_MS} ms later than one that passes`,
  ].join('\n');
}

/** Whether each target of this scenario is reached. */
export function translationHolds({ ways }: TranslationFigures): {
  readonly token: boolean;
  readonly request: boolean;
} {
  const [, passed, passedChat, ...translated] = ways;
  const plain = Math.max(passed?.requestMs.p50 ?? 0, passedChat?.requestMs.p50 ?? 0);
  return {
    token: translated.every(({ tokenMs }) => tokenMs.p50 <= MAX_TOKEN_MS),
    request: translated.every(({ requestMs }) => requestMs.p50 - plain <= MAX_REQUEST_MS),
  };
}

/** One model whose vendor speaks each dialect alone. */
async function addModels({ controlPlane, vendor }: Service): Promise<void> {
  for (const [provider, dialect] of [
    ['benchchat', 'openai'],
    ['benchmessages', 'anthropic'],
  ] as const) {
    const connector = { name: provider, provider, dialect, base_url: `${vendor.url}/v1` };
    await manage(controlPlane, 'POST', '/api/v1/connectors', connector);
    const usd = { currency_code: 'USD', units: 1, nanos: 0 };
    const price = { input_price: usd, output_price: usd };
    await manage(controlPlane, 'PUT', `/api/v1/catalog/models/${provider}/m`, {
      context_window: 200_000,
      upstream_name: 'm',
      price,
    });
  }
}

/** A conversation as an agent has it, of many turns. */
function bodyOf({ model }: Way): string {
  const text = 'A line of a file that an agent has read, with "quotes" and \\ escapes.\n'.repeat(20);
  const turns = Math.ceil(PROMPT_BYTES / JSON.stringify(text).length);
  const messages = Array.from({ length: turns - (turns % 2) + 1 }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: text,
  }));
  return JSON.stringify({ model, max_tokens: 1_000, stream: true, messages });
}

const STAMPS = /<(\d+),(\d+)>/;
const bodies = new Map<Way, string>();

async function time(pool: Pool, way: Way, key: string): Promise<{ tokenMs: number; requestMs: number }> {
  const body = bodies.get(way) ?? bodyOf(way);
  bodies.set(way, body);
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
  const sentAt = process.hrtime.bigint();
  const { statusCode, body: answer } = await pool.request({ path: way.path, method: 'POST', headers, body });
  let stamps: RegExpExecArray | null = null;
  let seenAt = 0n;
  let text = '';
  for await (const bytes of answer) {
    const now = process.hrtime.bigint();
    text += String(bytes);
    if (stamps) continue;
    stamps = STAMPS.exec(text);
    seenAt = now;
  }
  if (statusCode !== 200 || !stamps) throw new Error(`${way.name}: ${statusCode} ${text.slice(0, 500)}`);
  const [, wholeAt = '', writtenAt = ''] = stamps;
  return { tokenMs: millis(seenAt - BigInt(writtenAt)), requestMs: millis(BigInt(wholeAt) - sentAt) };
}

function millis(nanos: bigint): number {
  return Number(nanos) / 1e6;
}
