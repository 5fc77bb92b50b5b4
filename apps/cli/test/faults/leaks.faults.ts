import { expect, it } from 'vitest';
import { startCluster } from './cluster.ts';
import { longForm } from './longForm.ts';
import { growth, inFigures, leaks, soak } from './soak.ts';

const AT_ONCE = 48;
const REQUESTS_IN_SLICE = 10_000;
const LEAST_SLICES = 7;
const MOST_BYTES_PER_REQUEST = 32;
const SECONDS_OF_A_DAY = 86_400;

it('memory and handles stay constant at the highest rate', async () => {
  const { seed, endsAt, log } = longForm(process.env);
  const cluster = await startCluster({ proxies: 2, workers: 2 });
  try {
    const slices = await soak({
      cluster,
      seed,
      atOnce: AT_ONCE,
      requestsInSlice: REQUESTS_IN_SLICE,
      hasNext: (done) => done.length < LEAST_SLICES || performance.now() < endsAt,
      onSlice: (slice) => log('slice', inFigures(slice)),
    });
    const requests = slices.at(-1)?.requests ?? 0;
    log('figures', `${requests} requests: a day of ${(requests / SECONDS_OF_A_DAY).toFixed(1)} a second`);
    for (const name of slices[0]?.held.keys() ?? [])
      log('figures', `${name} grows by ${growth(slices, name).toFixed(1)} bytes a request`);
    const found = leaks(slices, MOST_BYTES_PER_REQUEST);
    for (const leak of found) log('WRONG', leak);
    log('result', found.length === 0 ? 'flat' : `${found.length} leaks`);
    expect(found).toEqual([]);
  } finally {
    await cluster.close();
  }
});
