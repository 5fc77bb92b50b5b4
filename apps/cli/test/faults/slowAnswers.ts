import { setTimeout as sleep } from 'node:timers/promises';
import { manage, type Service } from '../mainJob.ts';
import { Outages } from './outages.ts';

const INTERVAL_MS = 250;
/**
 * A request that needs a lease waits 5 s, in which two calls time out after 2 s. Each makes about fourteen statements, one after
 * the other; the request below makes two, in a few milliseconds.
 */
const SLOW_MS = 150;

/** When the control plane took long to list a key: the machine or Postgres was too busy to grant leases in time. */
export interface SlowAnswers {
  readonly outages: Outages;
  stop(): Promise<void>;
}

export function watchAnswers(service: Service): SlowAnswers {
  const outages = new Outages();
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      const late = setTimeout(() => outages.note(true), SLOW_MS);
      const isAnswered = await manage(service, 'GET', '/api/v1/keys?page_size=1').then(
        ({ status }) => status === 200,
        () => false,
      );
      clearTimeout(late);
      outages.note(!isAnswered);
      await sleep(INTERVAL_MS);
    }
    outages.note(false);
  })();
  return {
    outages,
    async stop() {
      isOver = true;
      await watching;
    },
  };
}
