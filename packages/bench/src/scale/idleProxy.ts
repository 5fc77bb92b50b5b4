import { residentMiB } from '../shared/residentMemory.ts';
import { issueAll, manage, startProxy, startService } from '../shared/service.ts';
import type { Lane } from './lane.ts';

const MODELS = 100;
const FREE = { currency_code: 'USD', units: 0, nanos: 0 };

/** A proxy that has served nothing, for a catalog of many models. */
export const idleProxy: Lane = {
  name: 'an idle proxy',
  size: `${MODELS} models beside the built-in ones`,
  async measure(run, factor) {
    const service = await startService(run, 'shared/mockVendor');
    try {
      await issueAll(MODELS * factor, async (at) => {
        const price = { input_price: FREE, output_price: FREE };
        const entry = { context_window: 8_000, upstream_name: 'echo', price };
        await manage(service.controlPlane, 'PUT', `/api/v1/catalog/models/mock/bench-${at}`, entry);
      });
      const proxy = await startProxy(run, service, 'idle');
      const MiB = residentMiB(proxy.process.pid)?.all ?? Number.NaN;
      await proxy.process.stop();
      return { MiB };
    } finally {
      await service.close();
    }
  },
};
