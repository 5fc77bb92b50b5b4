import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import type { Cluster } from './cluster.ts';
import type { Faults } from './faultyApp.ts';
import { createLoad, slowStream } from './load.ts';
import { randomFrom } from './random.ts';
import { expectReconciled } from './reconciliation.ts';

const SEED = 20_261_120;

export type Death = NonNullable<Faults['die']>;

/** The points around a write to the spool at which a proxy may die. */
export const DEATHS: readonly Death[] = [
  { at: 'INTENT', when: 'before' },
  { at: 'INTENT', when: 'within' },
  { at: 'INTENT', when: 'after' },
  { at: 'SETTLE', when: 'before' },
  { at: 'SETTLE', when: 'within' },
  { at: 'SETTLE', when: 'after' },
];

/** Row 1: a proxy that is killed at these points, and then while it streams, has recorded each attempt once. */
export async function expectSurvivesDeaths(cluster: Cluster, deaths: readonly Death[]): Promise<void> {
  const [proxy] = cluster.proxies;
  if (!proxy) throw new Error('there is no proxy');
  const random = randomFrom(SEED);
  const caller = await cluster.caller('row-1');
  const load = createLoad({ caller, seed: SEED, proxies: [proxy], atOnce: 4 });
  for (const point of deaths) {
    const nth = 3 + random.integer(10);
    await proxy.inject({ die: { ...point, nth } });
    await load.send(40);
    // The log line comes before the kill: the exit may arrive a little later.
    expect(await proxy.fired()).toEqual([`killed ${point.when} ${point.at}`]);
    expect(await proxy.ended()).toEqual({ code: null, signal: 'SIGKILL' });
    await proxy.inject({});
    await proxy.start();
  }
  // Killed during responses. The bill keeps those that the kills above cut off as not completed.
  const billed = cluster.vendor.bill.length;
  const streams = createLoad({
    caller,
    seed: SEED,
    series: 's',
    proxies: [proxy],
    nextRequest: () => slowStream(1_000, 10),
  });
  const streaming = streams.send(8);
  await eventually(() =>
    expect(
      cluster.vendor.bill.slice(billed).filter((entry) => !entry.completed && entry.outputTokens > 5),
    ).toHaveLength(8),
  );
  await proxy.stop('SIGKILL');
  await streaming;
  expect(streams.sent.map(({ end }) => end)).toEqual(Array(8).fill('cut'));
  await proxy.start();
  await load.send(10);

  const figures = await expectReconciled(cluster, caller, [...load.sent, ...streams.sent], 'row 1');
  // At least one per point between intent and settlement, and each of the streams.
  const between = deaths.filter(({ at, when }) => (when === 'after') === (at === 'INTENT'));
  expect(figures.estimatedRows).toBeGreaterThanOrEqual(8 + between.length);
  // What was settled before each, and after the last.
  expect(figures.exactRows).toBeGreaterThan(8 + 2 * deaths.length);
}
