import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, startCluster } from './cluster.ts';
import { growth, inFigures, leaks, type Slice, soak } from './soak.ts';

const SEED = 20_261_125;
const AT_ONCE = 24;
const SLICES = 10;
const REQUESTS_IN_SLICE = 600;
/**
 * Less than a retained response takes, or a listener with what it holds. In so short a run, compiled code adds up to 150.
 * Metering's heap is a sawtooth besides: its cache of decoded attributions takes 400 to 600 bytes for each request here, since each
 * has its own labels, and is emptied at 4,096 of them (packages/ledger/src/events/decodeCache.ts). The median slope spans a tooth.
 */
const MOST_BYTES_PER_REQUEST = 192;

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster?.close());

describe('25: requests at the highest rate', () => {
  it('leak neither memory nor handles in any app', async () => {
    const hasNext = (slices: readonly Slice[]) => slices.length < SLICES;
    const onSlice = (slice: Slice) => process.stdout.write(`row 25: ${inFigures(slice)}\n`);
    const options = { cluster, seed: SEED, atOnce: AT_ONCE, requestsInSlice: REQUESTS_IN_SLICE };
    const slices = await soak({ ...options, hasNext, onSlice });
    for (const name of slices[0]?.held.keys() ?? [])
      process.stdout.write(`row 25: ${name} grows by ${growth(slices, name).toFixed(1)} bytes a request\n`);
    expect(leaks(slices, MOST_BYTES_PER_REQUEST)).toEqual([]);
  });
});
