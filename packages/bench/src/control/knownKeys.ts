import { randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { KeySchema, ResolveResponseSchema } from '@weighbridge/contracts';
import { openKeyCacheForBenchmark } from '@weighbridge/data-plane/benchmarks';
import { type Figure, figure } from '../shared/figures.ts';

const KEYS = 1_000;
const REPEATS = 50;
const HOUR_MS = 3_600_000;

/** Measures the microseconds of CPU to authenticate with a known key, in this process: hash the token and look it up. */
export async function measureKnownKeys(rounds: number): Promise<Figure> {
  let lookUps = 0;
  const { authenticate } = openKeyCacheForBenchmark(async () => {
    lookUps++;
    const key = create(KeySchema, { id: `key_${lookUps}`, principalId: `principal-${lookUps}` });
    return create(ResolveResponseSchema, { key, revision: 1n, maxAgeMs: HOUR_MS });
  });
  const headers = Array.from(
    { length: KEYS },
    () => `Bearer sk-svc-${randomBytes(32).toString('base64url')}`,
  );
  for (const header of headers) await authenticate(header);
  const micros: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const before = process.cpuUsage();
    for (let time = 0; time < REPEATS; time++) for (const header of headers) await authenticate(header);
    const { user, system } = process.cpuUsage(before);
    // The first round warms up.
    if (round > 0) micros.push((user + system) / (REPEATS * KEYS));
  }
  if (lookUps !== KEYS) throw new Error(`${lookUps} look-ups for ${KEYS} keys`);
  return figure(micros);
}
