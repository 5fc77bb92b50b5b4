import { ApiError, readApiError } from '@weighbridge/client';
import { client, sessionMark } from './client.ts';
import { chatChunks } from './eventStream.ts';

const SPARE_MS = 60_000;

/** A key of one's own for a short time. Only the memory of this page has it. */
let kept: { readonly key: string; readonly until: number; readonly session: string } | undefined;

/** What a session can't do itself, at `/v1`, it does by this key, which ends with it. */
export async function playgroundKey(): Promise<string> {
  const session = sessionMark();
  if (kept?.session === session && kept.until > Date.now() + SPARE_MS) return kept.key;
  const { data } = await client.POST('/api/v1/keys/playground', {
    params: { query: { wait: 'propagated', timeout_ms: 5_000 } },
  });
  if (!data) throw new Error('an issued key has a body');
  kept = { key: data.key, until: Date.parse(data.expires_at ?? ''), session };
  return data.key;
}

export interface Answer {
  readonly text: string;
  readonly model: string;
  readonly requestId: string;
  readonly firstTokenMs: number | undefined;
  readonly totalMs: number | undefined;
  readonly tokens: { readonly input: number; readonly output: number } | undefined;
}

/** Asks a model, and tells of the answer as it comes. */
export async function ask(
  { model, prompt, system }: { model: string; prompt: string; system: string },
  onProgress: (answer: Answer) => void,
  signal: AbortSignal,
): Promise<void> {
  const key = await playgroundKey();
  const start = performance.now();
  const response = await fetch('/v1/chat/completions', {
    method: 'POST',
    credentials: 'omit',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      stream: true,
      stream_options: { include_usage: true },
      messages: [...(system ? [{ role: 'system', content: system }] : []), { role: 'user', content: prompt }],
    }),
    signal,
  });
  if (!response.ok || !response.body) throw await readApiError(response);
  let answer: Answer = {
    text: '',
    model: decodeURIComponent(response.headers.get('x-svc-model') ?? model),
    requestId: response.headers.get('x-request-id') ?? '',
    firstTokenMs: undefined,
    totalMs: undefined,
    tokens: undefined,
  };
  const show = (changes: Partial<Answer>) => {
    answer = { ...answer, ...changes };
    onProgress(answer);
  };
  show({});
  for await (const { text, usage, error } of chatChunks(response.body)) {
    if (error !== undefined) throw new ApiError({ status: 502, code: 'stream_failed', message: error });
    show({
      text: answer.text + text,
      firstTokenMs: answer.firstTokenMs ?? (text === '' ? undefined : performance.now() - start),
      tokens: usage ?? answer.tokens,
    });
  }
  show({ totalMs: performance.now() - start });
}
