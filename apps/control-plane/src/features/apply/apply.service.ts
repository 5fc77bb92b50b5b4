import {
  createUnitOfWork,
  type Database,
  isLockTimeout,
  type RunningUnit,
  type Tx,
  type UnitOfWork,
  withLockTimeout,
} from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import type { FastifyInstance } from 'fastify';
import type { Caller } from '../../shared/caller.ts';
import { writeAudits } from '../audit/audit.service.ts';
import { assertChangesFit, writeChanges } from '../changes/changes.service.ts';
import { runOnce } from '../idempotency/idempotency.service.ts';
import { updateCounters } from '../policies/counters.service.ts';
import { lockGovernance } from '../policies/governance.ts';
import type { Applied, Plan, PlanError } from './apply.schemas.ts';
import {
  type Credential,
  type CurrentCall,
  createPlanApi,
  interrupted,
  type PlanApi,
  PlannedCalls,
} from './plannedCalls.ts';

export interface ApplyDeps {
  readonly db: Database;
  readonly now: () => Date;
  /** The operator API on another database, for the calls of plans. */
  readonly buildApi: (db: Database, call: CurrentCall) => FastifyInstance;
}

interface Sender {
  readonly caller: Caller;
  readonly credential: Credential;
}

export interface Applying {
  /** Makes the calls of a plan with the sender's credential, all or none. Throws if one is refused, unless it is a dry run. */
  apply(
    sender: Sender,
    plan: Plan,
    idempotencyKey: string | undefined,
  ): Promise<{ readonly result: Applied; readonly replayed: boolean }>;
  close(): Promise<void>;
}

/** Other changes wait for the locks of a plan. */
const MAX_DURATION_MS = 120_000;
/** How long a plan waits for another one that another control plane applies. */
const GOVERNANCE_WAIT_MS = 2_000;
/** Leases, usage and other changes hold what the end needs for milliseconds, and wait for nothing that a plan holds. */
const END_WAIT_MS = 5_000;

export function createApply({ db, now, buildApi }: ApplyDeps): Applying {
  // Built at the first plan: most processes are sent none.
  let parts: { readonly unitOfWork: UnitOfWork; readonly api: PlanApi } | undefined;
  let isRunning = false;
  const open = () => {
    const unitOfWork = createUnitOfWork(db);
    return { unitOfWork, api: createPlanApi((call) => buildApi(unitOfWork.db, call)) };
  };
  return {
    async apply({ caller, credential }, plan, idempotencyKey) {
      if (isRunning) throw applyRunning();
      isRunning = true;
      try {
        parts ??= open();
        const { unitOfWork, api } = parts;
        const isDryRun = plan.dry_run ?? false;
        const deadline = Date.now() + MAX_DURATION_MS;
        const request = {
          caller,
          idempotencyKey: isDryRun ? undefined : idempotencyKey,
          body: plan,
          now: now(),
        };
        const run = (hasSavepoints: boolean) =>
          unitOfWork.run({ hasSavepoints }, async (unit) => {
            const result = await runOnce(unitOfWork.db, request, async () => {
              await lock(unit.tx);
              const calls = new PlannedCalls(api, credential);
              await makeAll(unit, plan, calls, { hasSavepoints, deadline });
              if (isDryRun) await assertChangesFit(unit.tx, unit.left(writeChanges));
              else await end(unit);
              return calls.applied(isDryRun);
            });
            return { result, isKept: !isDryRun };
          });
        return await run(false).catch((error: unknown) => {
          if (error instanceof FirstRefusal) return run(true);
          throw error;
        });
      } catch (error) {
        // Another control plane applies a plan, maybe this one, whose response was lost.
        throw isLockTimeout(error) ? applyRunning() : error;
      } finally {
        isRunning = false;
      }
    },
    async close() {
      await parts?.api.app.close();
    },
  };
}

/** Ends a run without savepoints, which undo single calls and cost as much as the calls: only a plan that is refused needs them. */
class FirstRefusal extends Error {}

async function makeAll(
  unit: RunningUnit,
  { calls, dry_run: isDryRun }: Plan,
  planned: PlannedCalls,
  { hasSavepoints, deadline }: { readonly hasSavepoints: boolean; readonly deadline: number },
): Promise<void> {
  for (const [index, call] of calls.entries()) {
    if (Date.now() > deadline) throw tooLarge(index, calls.length);
    const isMade = await planned.make(unit, index, call);
    if (!isMade && !hasSavepoints) throw new FirstRefusal();
  }
  await unit.check().catch((error: unknown) => {
    // Which call broke it is found by the run with savepoints.
    throw error instanceof AppError ? new FirstRefusal() : error;
  });
  if (planned.errors.length > 0 && !isDryRun) throw refused(planned.errors);
}

/** First, as in every change that needs it: its holders wait for rows that a plan may hold. */
async function lock(tx: Tx): Promise<void> {
  await withLockTimeout(tx, GOVERNANCE_WAIT_MS, () => lockGovernance(tx, 'exclusive'));
}

/** Writes what the calls left: counters, for which leases wait, and the revision, for which other changes do, come last. */
async function end(unit: RunningUnit): Promise<void> {
  const { tx } = unit;
  await writeAudits(tx, unit.left(writeAudits));
  try {
    await withLockTimeout(tx, END_WAIT_MS, async () => {
      await updateCounters(tx, unit.left(updateCounters));
      await writeChanges(tx, unit.left(writeChanges));
    });
  } catch (error) {
    throw isLockTimeout(error) ? interrupted('The end of the plan', error) : error;
  }
}

function tooLarge(made: number, of: number): AppError {
  const message = `The plan took longer than ${MAX_DURATION_MS / 1_000} s, at call ${made} of ${of}. Nothing was changed. Split the plan.`;
  return new AppError('invalid_request', 'plan_too_large', message, { param: 'calls' });
}

function applyRunning(): AppError {
  const message = 'Another plan is being applied. Nothing was changed. Try again.';
  return new AppError('unavailable', 'apply_running', message, { isLogged: false });
}

/** Of all refused calls: lost updates come first, since they need another plan. */
function refused(errors: readonly PlanError[]): AppError {
  const lost = errors.find(({ status }) => status === 412);
  const { index, message } = lost ?? errors[0] ?? raise(new Error('no call was refused'));
  const text = `${errors.length} ${errors.length === 1 ? 'call was' : 'calls were'} refused, so nothing was changed. Call ${index}: ${message}`;
  const options = { param: `calls.${index}`, details: { errors } };
  return lost
    ? new AppError('precondition', 'precondition_failed', text, options)
    : new AppError('validation', 'plan_refused', text, options);
}
