import {
  cachedInputTokens,
  type TokenUsage,
  totalInputTokens,
  totalOutputTokens,
  uncachedInputTokens,
} from '@weighbridge/domain';
import type { CostCounter, Counter, Histogram, Metrics } from '@weighbridge/runtime';
import type { AttemptEnd } from '@weighbridge/usage';
import { genAiOperation, genAiProvider } from './endpoints.ts';
import { getOrCreate } from './getOrCreate.ts';
import type { ObservedModelRequest } from './observedAttempt.ts';
import { type AttemptOutcome, attemptOutcome } from './outcomes.ts';
import { policyOf, type RequestObservation } from './requestObservation.ts';

// The buckets of the GenAI conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/).
const TOKENS = Array.from({ length: 14 }, (_, at) => 4 ** at);
const SECONDS = Array.from({ length: 14 }, (_, at) => 0.01 * 2 ** at).map((bound) =>
  Number(bound.toFixed(2)),
);
const FIRST_CHUNK_SECONDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30,
];
const OPERATION_LABELS = ['gen_ai_operation_name', 'gen_ai_provider_name', 'gen_ai_request_model'];

/** The series of one operation of one model at one connector. */
interface TargetSeries {
  readonly ended: Map<AttemptOutcome, EndedSeries>;
  readonly duration: Histogram;
  readonly inputTokens: Histogram;
  readonly outputTokens: Histogram;
  readonly input: Counter;
  readonly output: Counter;
  readonly cost: CostCounter;
  // Created on first use: not every target has them.
  firstChunk?: Histogram;
  cacheRead?: Counter;
  cacheWrite?: Counter;
  cacheWrite1h?: Counter;
  estimatedCost?: CostCounter;
}

interface EndedSeries {
  readonly attempts: Counter;
  readonly duration: Histogram;
}

/** Counts attempts as they are settled. test/hotPath.cost.test.ts bounds its cost. */
export function createAttemptMetrics(
  metrics: Metrics,
): (
  observed: RequestObservation,
  modelRequest: ObservedModelRequest,
  end: AttemptEnd,
  endedAt: number,
) => void {
  const families = createFamilies(metrics);
  const models = new Map<string, Map<string, TargetSeries>>();
  const policies = new Map<string, CostCounter>();

  function ofTarget(modelRequest: ObservedModelRequest): TargetSeries {
    const ofModel = getOrCreate(models, modelRequest.model.id, () => new Map<string, TargetSeries>());
    const { id } = modelRequest.connector;
    const key = genAiOperation(modelRequest.generation.operation) === 'chat' ? id : `${id} embeddings`;
    return getOrCreate(ofModel, key, () => families.ofTarget(modelRequest));
  }

  function countTokens(series: TargetSeries, model: string, usage: TokenUsage): void {
    const { cacheWriteTokens, cacheWrite1hTokens } = usage;
    const input = totalInputTokens(usage);
    // Of all modalities, as in the ledger.
    const inputTokens = uncachedInputTokens(usage);
    const cacheReadTokens = cachedInputTokens(usage);
    const outputTokens = totalOutputTokens(usage);
    if (input > 0) {
      series.inputTokens.observe(input);
      series.input.add(inputTokens);
    }
    if (cacheReadTokens > 0) {
      series.cacheRead ??= families.tokens.of(model, 'cache_read');
      series.cacheRead.add(cacheReadTokens);
    }
    if (cacheWriteTokens > 0) {
      series.cacheWrite ??= families.tokens.of(model, 'cache_write');
      series.cacheWrite.add(cacheWriteTokens);
    }
    if (cacheWrite1hTokens > 0) {
      series.cacheWrite1h ??= families.tokens.of(model, 'cache_write_1h');
      series.cacheWrite1h.add(cacheWrite1hTokens);
    }
    if (outputTokens > 0) {
      series.outputTokens.observe(outputTokens);
      series.output.add(outputTokens);
    }
  }

  function countUnpriced(model: string, unpriced: readonly string[]): void {
    // Once per attempt: it may have used several tools.
    for (const field of new Set(unpriced.map(unpricedField))) families.unpriced.of(model, field).add(1);
  }

  return (observed, modelRequest, end, endedAt) => {
    const series = ofTarget(modelRequest);
    const outcome = attemptOutcome(end);
    const ended = getOrCreate(series.ended, outcome, () => families.ofOutcome(modelRequest, outcome));
    const { dispatchedAt, firstByteAt, costNanoUsd } = end;
    const seconds = (endedAt - dispatchedAt) / 1_000;
    ended.attempts.add(1);
    ended.duration.observe(seconds);
    series.duration.observe(seconds);
    if (observed.streamed && firstByteAt !== undefined) {
      series.firstChunk ??= families.firstChunk(modelRequest);
      series.firstChunk.observe((firstByteAt - dispatchedAt) / 1_000);
    }
    countTokens(series, modelRequest.model.id, end.usage);
    if (end.details.unpriced.length > 0) countUnpriced(modelRequest.model.id, end.details.unpriced);
    if (costNanoUsd === 0n) return;
    series.cost.add(costNanoUsd);
    const policy = policyOf(observed);
    getOrCreate(policies, policy, () => families.costByPolicy.of(policy)).add(costNanoUsd);
    if (!end.estimated) return;
    series.estimatedCost ??= families.estimatedCost.of(modelRequest.model.id);
    series.estimatedCost.add(costNanoUsd);
  };
}

/** The names before the colon of what is unpriced. */
const UNPRICED_FIELDS: ReadonlySet<string> = new Set([
  'service_tier',
  'speed',
  'geography',
  'tool',
  'model',
  'beyond_catalog',
]);

/** A label of few values: vendors choose the names of tiers and tools. What has no colon is a modality. */
function unpricedField(unpriced: string): string {
  const colon = unpriced.indexOf(':');
  if (colon === -1) return 'modality';
  const field = unpriced.slice(0, colon);
  return UNPRICED_FIELDS.has(field) ? field : 'other';
}

function createFamilies(metrics: Metrics) {
  const attempts = metrics.counterFamily('weighbridge_attempts_total', 'Attempts that ended.', [
    'connector',
    'outcome',
  ]);
  const attemptDuration = metrics.histogramFamily(
    'weighbridge_attempt_duration_seconds',
    'Time from sending an attempt until it ended.',
    ['connector'],
    SECONDS,
  );
  const tokens = metrics.counterFamily(
    'weighbridge_tokens_total',
    'Tokens of attempts. The types do not overlap.',
    ['model', 'type'],
  );
  const cost = metrics.costCounterFamily('weighbridge_cost_usd_total', 'Cost of attempts, in US dollars.', [
    'model',
    'connector',
  ]);
  const estimatedCost = metrics.costCounterFamily(
    'weighbridge_cost_estimated_usd_total',
    'Estimated part of the cost: the vendor reported no usage.',
    ['model'],
  );
  const tokenUsage = metrics.histogramFamily(
    'gen_ai_client_token_usage',
    'Number of input and output tokens used.',
    [...OPERATION_LABELS, 'gen_ai_token_type'],
    TOKENS,
  );
  const operationDuration = metrics.histogramFamily(
    'gen_ai_client_operation_duration_seconds',
    'GenAI operation duration.',
    [...OPERATION_LABELS, 'error_type'],
    SECONDS,
  );
  const firstChunk = metrics.histogramFamily(
    'gen_ai_client_operation_time_to_first_chunk_seconds',
    'Time to receive the first chunk of a stream.',
    OPERATION_LABELS,
    FIRST_CHUNK_SECONDS,
  );
  const labelsOf = ({ generation, connector, model }: ObservedModelRequest) => [
    genAiOperation(generation.operation),
    genAiProvider(connector.provider),
    model.id,
  ];
  const unpriced = metrics.counterFamily(
    'weighbridge_unpriced_usage_total',
    'Attempts that used what their price has no price for: it was charged at the dearest known price.',
    ['model', 'field'],
  );
  return {
    tokens,
    unpriced,
    estimatedCost,
    firstChunk: (modelRequest: ObservedModelRequest) => firstChunk.of(...labelsOf(modelRequest)),
    costByPolicy: metrics.costCounterFamily(
      'weighbridge_cost_by_policy_usd_total',
      'Cost of attempts by governing policy, in US dollars.',
      ['policy'],
    ),
    ofTarget: (modelRequest: ObservedModelRequest): TargetSeries => ({
      ended: new Map(),
      duration: attemptDuration.of(modelRequest.connector.id),
      inputTokens: tokenUsage.of(...labelsOf(modelRequest), 'input'),
      outputTokens: tokenUsage.of(...labelsOf(modelRequest), 'output'),
      input: tokens.of(modelRequest.model.id, 'input'),
      output: tokens.of(modelRequest.model.id, 'output'),
      cost: cost.of(modelRequest.model.id, modelRequest.connector.id),
    }),
    ofOutcome: (modelRequest: ObservedModelRequest, outcome: AttemptOutcome): EndedSeries => ({
      attempts: attempts.of(modelRequest.connector.id, outcome),
      duration: operationDuration.of(...labelsOf(modelRequest), outcome === 'success' ? '' : outcome),
    }),
  };
}
