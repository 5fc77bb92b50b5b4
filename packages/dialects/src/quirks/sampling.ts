import type { Sampling, Setting } from '../ir/request.ts';
import type { WriteContext } from '../writeContext.ts';

export interface SamplingLimits {
  readonly maxTemperature: number;
  /** Models of this vendor take no sampling while they reason. */
  readonly isReasoning: boolean;
}

/** What is sent of the sampling that was asked for. */
export interface PlannedSampling {
  readonly temperature: number | undefined;
  readonly topP: number | undefined;
  readonly topK: number | undefined;
  readonly seed: number | undefined;
  readonly presencePenalty: number | undefined;
  readonly frequencyPenalty: number | undefined;
  readonly stop: readonly string[] | undefined;
}

/** Names what a target does not take: what would change when the answer ends is refused, the rest dropped. */
export function planSampling(
  asked: Sampling,
  { quirks, losses }: WriteContext,
  { maxTemperature, isReasoning }: SamplingLimits,
): PlannedSampling {
  const take = (setting: Setting<number> | undefined, takes: boolean): number | undefined => {
    if (setting && !takes) losses.add(setting.path, 'dropped', 'the model does not take it');
    return takes ? setting?.value : undefined;
  };
  const samples = quirks.sampling && !isReasoning;
  const { stop } = asked;
  const hasStops = stop !== undefined && stop.value.length > 0;
  if (hasStops && stop.value.length > quirks.maxStops) {
    losses.add(stop.path, 'refused', `the model takes ${quirks.maxStops} stop sequences`);
  }
  let temperature = take(asked.temperature, samples);
  if (asked.temperature && temperature !== undefined && temperature > maxTemperature) {
    losses.add(asked.temperature.path, 'changed', `the model takes at most ${maxTemperature}`);
    temperature = maxTemperature;
  }
  return {
    temperature,
    topP: take(asked.topP, samples),
    topK: take(asked.topK, samples && quirks.topK),
    seed: refuseOr(asked.seed, quirks.seed),
    presencePenalty: take(asked.presencePenalty, quirks.penalties),
    frequencyPenalty: take(asked.frequencyPenalty, quirks.penalties),
    stop: hasStops ? stop.value : undefined,
  };

  function refuseOr(setting: Setting<number> | undefined, takes: boolean): number | undefined {
    if (setting && !takes) losses.add(setting.path, 'refused', 'the model takes no seed; leave it out');
    return takes ? setting?.value : undefined;
  }
}
