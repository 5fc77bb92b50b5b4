import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';

/** A chat completion of about 1 KB. */
const BODY = JSON.stringify({
  model: 'mock/echo',
  max_tokens: 64,
  messages: [{ role: 'user', content: 'What does a weighbridge weigh? '.repeat(30) }],
});

/** Callers that send requests with one key, over connections that stay. */
export interface Load {
  /** Keeps every connection busy for so long; resolves with how many answers came. */
  saturate(ms: number): Promise<number>;
  /**
   * Sends `rate` requests a second for so long, each at its time whatever became of those before; resolves with how many
   * answers a second came until the last.
   */
  open(rate: number, ms: number): Promise<number>;
  /** Resolves with its cost in micro-USD, once the answer has ended. */
  sendOne(): Promise<number>;
  close(): Promise<void>;
}

/** Throws at the first answer that is not `200` with what `expected` finds right. */
export function createLoad(
  url: string,
  options: {
    readonly key: string;
    readonly connections: number;
    readonly isRight: (body: string) => boolean;
  },
): Load {
  const { key, connections, isRight } = options;
  const pool = new Pool(url, { connections, pipelining: 1 });
  const send = async (): Promise<number> => {
    const { statusCode, headers, body } = await pool.request({
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: BODY,
    });
    const text = await body.text();
    if (statusCode !== 200 || !isRight(text))
      throw new Error(`answered ${statusCode}: ${text.slice(0, 500)}`);
    return Number(headers['x-svc-cost-micro-usd']);
  };
  return {
    async saturate(ms) {
      const end = performance.now() + ms;
      let sent = 0;
      const worker = async () => {
        while (performance.now() < end) {
          await send();
          sent++;
        }
      };
      await Promise.all(Array.from({ length: connections }, worker));
      return sent;
    },
    async open(rate, ms) {
      const start = performance.now();
      const under: Promise<number>[] = [];
      for (let elapsedMs = 0; elapsedMs < ms; elapsedMs = performance.now() - start) {
        const due = Math.floor((elapsedMs / 1_000) * rate);
        while (under.length < due) {
          const sending = send();
          // Told at the end.
          sending.catch(() => {});
          under.push(sending);
        }
        await sleep(1);
      }
      await Promise.all(under);
      return under.length / ((performance.now() - start) / 1_000);
    },
    sendOne: send,
    close: () => pool.close(),
  };
}
