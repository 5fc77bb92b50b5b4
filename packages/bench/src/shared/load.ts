import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';

/** A chat completion of about 1 KB. */
const BODY = JSON.stringify({
  model: 'mock/echo',
  max_tokens: 64,
  messages: [{ role: 'user', content: 'What does a weighbridge weigh? '.repeat(30) }],
});

/** Sends requests with one key over persistent connections. */
export interface Load {
  /** Keeps every connection busy for `ms`; resolves with the number of responses. */
  saturate(ms: number): Promise<number>;
  /**
   * Sends `rate` requests per second for `ms`, each at its time whatever happened to earlier ones. Resolves with the
   * responses per second until the last one.
   */
  open(rate: number, ms: number): Promise<number>;
  /** Resolves with the cost in micro-USD when the response has ended. */
  sendOne(): Promise<number>;
  close(): Promise<void>;
}

/** Its methods reject at the first response that is not a `200` for which `isRight` returns true. */
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
      const sent: Promise<number>[] = [];
      for (let elapsedMs = 0; elapsedMs < ms; elapsedMs = performance.now() - start) {
        const due = Math.floor((elapsedMs / 1_000) * rate);
        while (sent.length < due) {
          const sending = send();
          // `Promise.all` below reports the rejection.
          sending.catch(() => {});
          sent.push(sending);
        }
        await sleep(1);
      }
      await Promise.all(sent);
      return sent.length / ((performance.now() - start) / 1_000);
    },
    sendOne: send,
    close: () => pool.close(),
  };
}
