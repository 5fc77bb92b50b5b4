import { LIVE } from './company.ts';

/** What became of the requests of a load. */
export interface LoadResult {
  readonly sent: number;
  readonly succeeded: number;
  /** By the budget: it is used up, or reserved for requests in flight. */
  readonly refused: number;
  /** Whose connection broke, as those to a killed proxy do. */
  readonly broken: number;
  /** Anything else, by status and code. */
  readonly others: ReadonlyMap<string, number>;
}

export interface LoadOptions {
  /** Where requests go, in turn. It is asked before each, since a killed proxy leaves. */
  readonly urls: () => readonly string[];
  readonly key: string;
  readonly atOnce: number;
  /** The load ends after this many requests, or this many refusals. */
  readonly atMost: number;
  readonly untilRefused: number;
  /** Called after each success, with their count. */
  readonly onSuccess: (succeeded: number) => void;
}

const REQUEST_TIMEOUT_MS = 20_000;
/** The limit is reached, or what is left of it is reserved for requests in flight. */
const REFUSED = new Set(['budget_exhausted', 'budget_contended']);

/** Sends numbered requests, half of them streamed, as applications do. */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const result = { sent: 0, succeeded: 0, refused: 0, broken: 0, others: new Map<string, number>() };
  async function worker(): Promise<void> {
    while (result.sent < options.atMost && result.refused < options.untilRefused) {
      const number = ++result.sent;
      const urls = options.urls();
      const outcome = await send(urls[number % urls.length] ?? '', options.key, number);
      if (outcome === 'success') options.onSuccess(++result.succeeded);
      else if (REFUSED.has(outcome)) result.refused++;
      else if (outcome === 'broken') result.broken++;
      else result.others.set(outcome, (result.others.get(outcome) ?? 0) + 1);
    }
  }
  await Promise.all(Array.from({ length: options.atOnce }, worker));
  return result;
}

async function send(url: string, key: string, number: number): Promise<string> {
  const model = LIVE.models[number % LIVE.models.length] ?? '';
  const stream = number % 4 < 2;
  const content = `This is request #${number}. ${'Please weigh this truck. '.repeat(4 + (number % 9))}`;
  const path = model.startsWith('anthropic/') ? '/v1/messages' : '/v1/chat/completions';
  try {
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'x-svc-project': 'launch',
        'x-svc-labels': `number=${number}`,
      },
      body: JSON.stringify({ model, stream, max_tokens: 120, messages: [{ role: 'user', content }] }),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    });
    const text = await response.text();
    if (response.ok) return 'success';
    return /"code":"(\w+)"/.exec(text)?.[1] ?? String(response.status);
  } catch {
    return 'broken';
  }
}
