import type { Logger, ServiceContext } from '@weighbridge/runtime';
import { repeat } from '../../shared/repeat.ts';
import { type OverrideDeps, recordEnds } from './overrides.service.ts';

const EVERY_MS = 1_000;

/** Each control plane looks for overrides whose end has come; each end is recorded once. */
export function watchOverrides(
  deps: OverrideDeps & { readonly logger: Logger },
  context: Pick<ServiceContext, 'onShutdown'>,
): void {
  const task = {
    name: 'ends of overrides',
    everyMs: EVERY_MS,
    run: () => recordEnds(deps),
    onFailure: 'failed to record the ends of overrides; trying again',
  };
  repeat(task, deps.logger, context);
}
