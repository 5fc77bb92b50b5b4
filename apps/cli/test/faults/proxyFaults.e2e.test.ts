import { afterAll, beforeAll, beforeEach, describe, it } from 'vitest';
import { type Cluster, startCluster } from './cluster.ts';
import { DEATHS, expectSurvivesDeaths } from './deaths.ts';

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster?.close());
beforeEach(() => cluster.restore());

describe('a proxy whose process or disk fails', () => {
  it('1: killed between intent and settlement, has recorded each attempt once, and charges attempts in flight after a restart', () =>
    expectSurvivesDeaths(
      cluster,
      DEATHS.filter(({ at, when }) => at === 'SETTLE' && when === 'within'),
    ));
});
