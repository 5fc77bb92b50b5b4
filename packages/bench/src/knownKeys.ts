import { randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { KeySchema, ResolveResponseSchema } from '@weighbridge/contracts';
import { openKeyCacheForBenchmark } from '@weighbridge/data-plane/benchmarks';
import { type Figure, figure } from './figures.ts';

const KEYS = 1_000;
const TIMES = 50;
const HOUR_MS = 3_600_000;

/** Microseconds of CPU to authenticate by a key that is known, in this process: the token's hash, and the look-up. */
export async function measureKnownKeys(rounds: number): Promise<Figure> {
  let asked = 0;
  const authenticate = openKeyCacheForBenchmark(async () => {
    asked++;
    const key = create(KeySchema, { id: `key_${asked}`, principalId: `principal-${asked}` });
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
    for (let time = 0; time < TIMES; time++) for (const header of headers) await authenticate(header);
    const { user, system } = process.cpuUsage(before);
    // The first warms up.
    if (round > 0) micros.push((user + system) / (TIMES * KEYS));
  }
  if (asked !== KEYS) throw new Error(`${asked} look-ups of ${KEYS} keys`);
  return figure(micros);
}
