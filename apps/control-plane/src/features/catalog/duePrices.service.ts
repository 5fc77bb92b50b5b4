import type { Database } from '@weighbridge/database';
import type { Logger, ServiceContext } from '@weighbridge/runtime';
import { repeat } from '../../shared/repeat.ts';
import type { CatalogFileModel } from './catalogFile.ts';
import { importShipped } from './catalogImport.service.ts';
import { duePrices, shippedCatalog } from './shippedCatalog.ts';

const CHECK_INTERVAL_MS = 10_000;

interface Deps {
  readonly db: Database;
  readonly now: () => Date;
  readonly logger: Logger;
}

/** Makes the dated prices of the shipped catalog effective at their date, while the control plane runs. */
export function watchDuePrices(
  deps: Deps,
  files: readonly CatalogFileModel[],
  context: Pick<ServiceContext, 'onShutdown'>,
): void {
  let after = deps.now();
  let { next } = duePrices(files, { after, until: after });
  const run = async (): Promise<void> => {
    const until = deps.now();
    await importDuePrices(deps, files, { after, until });
    after = until;
    next = duePrices(files, { after, until }).next;
  };
  const task = {
    name: 'due prices',
    everyMs: CHECK_INTERVAL_MS,
    isDue: () => next !== undefined && deps.now() >= next,
    run,
    onFailure: 'failed to make due prices effective; trying again',
  };
  repeat(task, deps.logger, context);
}

/** Only of models whose price is due: a newer release may have imported other prices for the rest by now. */
export async function importDuePrices(
  { db, now, logger }: Deps,
  files: readonly CatalogFileModel[],
  range: { readonly after: Date; readonly until: Date },
): Promise<void> {
  const { due } = duePrices(files, range);
  if (due.length === 0) return;
  const models = shippedCatalog(due, range.until);
  const { newPrices } = await db.transaction().execute((tx) => importShipped(tx, models, now()));
  logger.info({ newPrices, models: due.map(({ id }) => id) }, 'dated prices of the catalog are effective');
}
