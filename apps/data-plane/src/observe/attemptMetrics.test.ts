import { Outcome } from '@weighbridge/contracts';
import { NO_TOKENS, type TokenUsage } from '@weighbridge/domain';
import { createMetrics } from '@weighbridge/runtime';
import { type AttemptEnd, LIST_PRICE_DETAILS } from '@weighbridge/usage';
import { expect, it } from 'vitest';
import { CHAT_COMPLETIONS } from '../formats/operation.ts';
import { createAttemptMetrics } from './attemptMetrics.ts';
import type { ObservedModelRequest } from './observedAttempt.ts';
import type { RequestObservation } from './requestObservation.ts';

const MODEL_REQUEST = {
  model: { id: 'mock/echo' },
  connector: { id: 'con_1', provider: 'mock', baseUrl: 'http://127.0.0.1' },
  generation: { operation: CHAT_COMPLETIONS },
} as ObservedModelRequest;

/** The series of attempts that ended like this, by name and labels. */
async function seriesOf(...ends: { usage?: Partial<TokenUsage>; unpriced?: string[] }[]) {
  const metrics = createMetrics();
  const count = createAttemptMetrics(metrics);
  for (const { usage, unpriced = [] } of ends) {
    const end: AttemptEnd = {
      usage: { ...NO_TOKENS, ...usage },
      details: { ...LIST_PRICE_DETAILS, unpriced },
      costNanoUsd: 0n,
      estimated: false,
      dispatchedAt: 0,
      firstByteAt: 1,
      responseId: '',
      dropped: [],
      skipped: [],
      outcome: Outcome.SUCCESS,
      status: 200,
    };
    count({ streamed: false } as RequestObservation, MODEL_REQUEST, end, 2);
  }
  const lines = (await metrics.text()).split('\n').map((line) => line.split(' ') as [string, string]);
  return (name: string) =>
    Object.fromEntries(
      lines
        .filter(([series]) => series.startsWith(`${name}{`))
        .map(([series, value]) => [
          series.slice(name.length).replace('model="mock/echo",', ''),
          Number(value),
        ]),
    );
}

it('what has no price counts once per attempt, under a name that no vendor chose', async () => {
  const series = await seriesOf(
    { unpriced: [] },
    { unpriced: ['service_tier:priority', 'tool:shell', 'tool:web_search'] },
    { unpriced: ['speed:fast', 'geography:mars', 'tool:x', 'output_audio', 'input_image'] },
    { unpriced: ['model:a/b', 'of a later release:x'] },
  );
  expect(series('weighbridge_unpriced_usage_total')).toEqual({
    '{field="service_tier"}': 1,
    '{field="speed"}': 1,
    '{field="geography"}': 1,
    '{field="tool"}': 2,
    '{field="modality"}': 1,
    '{field="model"}': 1,
    '{field="other"}': 1,
  });
});

it('tokens count in all modalities', async () => {
  const series = await seriesOf({
    usage: {
      inputTokens: 1,
      inputAudioTokens: 10,
      inputImageTokens: 100,
      cacheReadTokens: 2,
      cacheReadAudioTokens: 20,
      outputAudioTokens: 30,
      outputImageTokens: 300,
    },
  });
  expect(series('weighbridge_tokens_total')).toEqual({
    '{type="input"}': 111,
    '{type="cache_read"}': 22,
    '{type="output"}': 330,
  });
});
