import type { TestRun } from '@weighbridge/testing';
import { eventsOfStream, FULL_BATCH_EVENTS, measureRaw, measureStream } from '../metering/metering.ts';
import { type GeneratedKind, generateEvents } from '../shared/generateUsage.ts';
import type { Lane } from './lane.ts';

const EVENTS = 4_000;
const PRODUCERS = 4;

/** All usage in one counter, beside usage in a counter of each principal. */
export const companyPolicy: Lane = {
  name: 'one company policy',
  size: `${EVENTS.toLocaleString('en-US')} events of ${PRODUCERS} producers, in batches of ${FULL_BATCH_EVENTS}`,
  async measure(run, factor, onProgress) {
    const count = EVENTS * factor;
    onProgress('raw SQL');
    const raw = await measureRaw(run, generateEvents(eventsOfStream(count), new Date()));
    const spread = await measure(run, count, 'own of each principal', onProgress);
    const company = await measure(run, count, 'the company alone', onProgress);
    return {
      'events/s of spread policies, of raw SQL': raw.wall / spread.wall,
      'events/s of one company policy, of spread ones': spread.wall / company.wall,
      'the same while a backlog is drained': spread.drainedWall / company.drainedWall,
    };
  },
};

async function measure(
  run: TestRun,
  count: number,
  policies: GeneratedKind['policies'] & string,
  onProgress: (text: string) => void,
) {
  onProgress(`policies: ${policies}`);
  const events = generateEvents(eventsOfStream(count), new Date(), 0, { policies });
  const timings = await measureStream(run, events, count, {
    producers: PRODUCERS,
    eventsPerBatch: FULL_BATCH_EVENTS,
  });
  return { wall: timings.beside.wall, drainedWall: timings.drained.wall };
}
