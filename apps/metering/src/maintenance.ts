import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ArchiveState,
  readArchiveState,
  readBudgetUse,
  readLedgerState,
  readLimitUse,
} from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import { MAINTENANCE_TASKS, type MaintenanceDeps, type Progress } from './maintenanceTasks.ts';
import { runExclusively } from './runExclusively.ts';

export interface Maintenance {
  /** Waits for the task in progress. */
  stop(): Promise<void>;
  /** How the archive was some seconds ago. Undefined: nothing is archived. */
  archive(): ArchiveState | undefined;
}

/** Any number that no other advisory lock uses. */
const MAINTENANCE_LOCK = 9_071_336_027;
const TICK_MS = 5_000;
const RETRY_MS = 60_000;
const BUDGETS_EVERY_MS = 60_000;
const SHOWN_BUDGETS = 200;

/** Runs the ledger's maintenance until stopped: each task when it is due, in one worker at a time. Resolves after a first round. */
export async function startMaintenance(deps: MaintenanceDeps, logger: Logger): Promise<Maintenance> {
  const stopping = new AbortController();
  const { signal } = stopping;
  const dueAt = new Map(MAINTENANCE_TASKS.map((task) => [task, task.firstAt?.(deps.now()) ?? 0]));
  const progressOf = new Map(MAINTENANCE_TASKS.map((task) => [task, {} as Progress]));
  let archive: ArchiveState | undefined;
  let budgetsReadAt = Number.NEGATIVE_INFINITY;

  async function runDueTasks(): Promise<void> {
    for (const task of MAINTENANCE_TASKS) {
      const at = deps.now().getTime();
      if (signal.aborted || at < (dueAt.get(task) ?? 0)) continue;
      dueAt.set(task, at + task.everyMs);
      const progress = progressOf.get(task) ?? {};
      try {
        await runExclusively(deps.db, MAINTENANCE_LOCK, () => task.run(deps, logger, progress));
        if (progress.hasMore) dueAt.set(task, at);
      } catch (error) {
        dueAt.set(task, at + Math.min(task.everyMs, RETRY_MS));
        deps.metrics.maintenanceFailures.inc({ task: task.name });
        logger.warn({ why: error, task: task.name }, 'maintenance task failed; retrying');
      }
    }
  }

  /** In every worker, since each has its own metrics. */
  async function updateMetrics(): Promise<void> {
    try {
      deps.metrics.show(await readLedgerState(deps.db));
      if (deps.hasArchive) {
        archive = await readArchiveState(deps.db);
        deps.metrics.showArchiveDue(archive?.dueDays ?? 0);
      }
      const now = deps.now();
      if (now.getTime() - budgetsReadAt < BUDGETS_EVERY_MS) return;
      budgetsReadAt = now.getTime();
      deps.metrics.showBudgets(
        await readBudgetUse(deps.db, now, SHOWN_BUDGETS),
        await readLimitUse(deps.db, now, SHOWN_BUDGETS),
      );
    } catch (error) {
      logger.warn({ why: error }, 'failed to read the state of the ledger; metrics keep the last values');
    }
  }

  async function round(): Promise<void> {
    await runDueTasks();
    await updateMetrics();
  }

  await round();
  const running = (async () => {
    while (!signal.aborted) {
      await sleep(TICK_MS, undefined, { signal }).catch(() => {});
      if (!signal.aborted) await round();
    }
  })();
  return {
    archive: () => archive,
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
