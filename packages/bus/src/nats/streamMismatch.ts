import type { ConsumerConfig, StreamConfig } from '@nats-io/jetstream';

/** JSStreamNameExistErr: another process created the stream after we looked for it. */
export const STREAM_NAME_IN_USE = 10_058;

/** How a stream or bucket in NATS differs from the settings, and what an operator can do: two sentences. */
export interface Mismatch {
  readonly problem: string;
  readonly fix: string;
}

export function describeMismatch({ problem, fix }: Mismatch): string {
  return `${problem} ${fix}`;
}

export function mismatchError(mismatch: Mismatch): Error {
  return new Error(describeMismatch(mismatch));
}

/** Which fields differ, such as `max_bytes is 1 and should be 2`; undefined if none. Fields unknown to the server are skipped. */
export function configDifferences(
  config: StreamConfig | ConsumerConfig,
  wanted: Readonly<Record<string, unknown>>,
): string | undefined {
  const actual: Readonly<Record<string, unknown>> = { ...config };
  const differing = Object.entries(wanted).filter(
    ([field, value]) => actual[field] !== undefined && String(actual[field]) !== String(value),
  );
  const fields = differing.map(([field, value]) => `${field} is ${actual[field]} and should be ${value}`);
  return fields.length > 0 ? fields.join('; ') : undefined;
}
